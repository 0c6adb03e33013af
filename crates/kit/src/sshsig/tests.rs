use proptest::prelude::*;

use super::*;

const NAMESPACE: &str = "some-namespace";

/// A key of `ssh-keygen`, and its signature over "hello\n" for the namespace "file".
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPguMsZvU7+nKh6HkYFhvZU0W391Qj+2zwOwXBil3JmH test";
const FINGERPRINT: &str = "SHA256:EsqOXJDiTdu96ZR5Ql2p41VlTPpYQavDeMLOZqudnpE";
const SHA512_SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg+C4yxm9Tv6cqHoeRgWG9lTRbf3
VCP7bPA7BcGKXcmYcAAAAEZmlsZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gtZWQyNTUx
OQAAAEBypLEzdnAj9/LbB1lEUYe8AKrZ92XKXPqupHWrdemOEe+N6RjjQdMa2kHmDeM50d
5APne1BtSwRGJ7gYqwoz0A
-----END SSH SIGNATURE-----
";
/// With `-O hashalg=sha256`.
const SHA256_SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg+C4yxm9Tv6cqHoeRgWG9lTRbf3
VCP7bPA7BcGKXcmYcAAAAEZmlsZQAAAAAAAAAGc2hhMjU2AAAAUwAAAAtzc2gtZWQyNTUx
OQAAAEBgADGCORhhlKGREd62Gw9xq6l5HotJCsAJPc/c9TtaTTc712crgjSrbLkhCjQtji
J4mks+hU7D/GSi2SrfW7ID
-----END SSH SIGNATURE-----
";

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_seed(&[seed; 32])
}

#[test]
fn verifies_signatures_of_ssh_keygen() {
    let key: PublicKey = KEY.parse().unwrap();
    assert_eq!(key.fingerprint(), FINGERPRINT);
    for signature in [SHA512_SIGNATURE, SHA256_SIGNATURE] {
        assert_eq!(verify(signature, "file", b"hello\n"), Ok(key));
        assert_eq!(verify(&signature.replace('\n', "\r\n"), "file", b"hello\n"), Ok(key));
        assert_eq!(verify(signature, "file", b"hello"), Err(SshSigError::Mismatch));
        assert!(matches!(verify(signature, "x", b"hello\n"), Err(SshSigError::Namespace { .. })));
    }
}

#[test]
fn a_signature_has_the_form_of_ssh_keygen() {
    let signature = key(1).sign("file", b"hello\n");
    let lengths = |text: &str| text.lines().map(str::len).collect::<Vec<_>>();
    assert_eq!(lengths(&signature), lengths(SHA512_SIGNATURE));
    assert!(signature.ends_with("\n-----END SSH SIGNATURE-----\n"));
}

#[test]
fn keys_of_other_types_and_incomplete_keys_are_rejected() {
    let rsa = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDB";
    assert_eq!(rsa.parse::<PublicKey>(), Err(SshSigError::KeyType("ssh-rsa".into())));
    let start = &KEY[..60];
    for text in ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 é", start] {
        assert!(text.parse::<PublicKey>().is_err(), "{text}");
    }
}

#[test]
fn changed_formats_are_rejected() {
    let good = dearmor(SHA512_SIGNATURE).unwrap();
    let longer = [good.as_slice(), b"x"].concat();
    let other_version = [&good[..9], &[2], &good[10..]].concat();
    let huge_field = [&good[..10], &[0xff; 4], &good[14..]].concat();
    for blob in [&longer, &other_version, &huge_field] {
        assert!(matches!(verify(&armor(blob), "file", b"hello\n"), Err(SshSigError::Malformed(_))));
    }
    let text = SHA512_SIGNATURE;
    for text in [text.replace("BEGIN", "begin"), format!("x{text}"), format!("{text}x")] {
        assert!(verify(&text, "file", b"hello\n").is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn signatures_verify_with_their_key_alone(
        seed: [u8; 32],
        namespace in "[a-z-]{1,20}",
        message: Vec<u8>,
    ) {
        let key = PrivateKey::from_seed(&seed);
        let signature = key.sign(&namespace, &message);
        prop_assert_eq!(verify(&signature, &namespace, &message), Ok(key.public_key()));
        prop_assert_eq!(key.public_key().to_string().parse(), Ok(key.public_key()));
    }

    #[test]
    fn a_changed_byte_of_the_message_is_rejected(
        message in prop::collection::vec(any::<u8>(), 1..200),
        index: prop::sample::Index,
        change in 1..=255_u8,
    ) {
        let signature = key(1).sign(NAMESPACE, &message);
        let mut changed = message;
        let index = index.index(changed.len());
        changed[index] ^= change;
        prop_assert_eq!(verify(&signature, NAMESPACE, &changed), Err(SshSigError::Mismatch));
    }

    #[test]
    fn a_changed_byte_of_the_signature_is_rejected(
        index: prop::sample::Index,
        change in 1..=255_u8,
    ) {
        let mut blob = dearmor(&key(1).sign(NAMESPACE, b"message")).unwrap();
        let index = index.index(blob.len());
        blob[index] ^= change;
        prop_assert!(verify(&armor(&blob), NAMESPACE, b"message").is_err());
    }

    #[test]
    fn a_changed_character_of_the_file_is_rejected(
        index: prop::sample::Index,
        character in "[!-~]",
    ) {
        let signature = key(1).sign(NAMESPACE, b"message");
        let index = index.index(signature.len());
        let changed = format!("{}{character}{}", &signature[..index], &signature[index + 1..]);
        prop_assume!(changed != signature);
        prop_assert!(verify(&changed, NAMESPACE, b"message").is_err());
    }

    #[test]
    fn hostile_input_never_panics(
        text in "\\PC*",
        blob: Vec<u8>,
        fields: Vec<Vec<u8>>,
        length in 0..200_usize,
    ) {
        let _ = verify(&text, NAMESPACE, b"");
        let _ = text.parse::<PublicKey>();
        let mut framed = MAGIC.to_vec();
        framed.extend_from_slice(&VERSION.to_be_bytes());
        fields.iter().for_each(|field| put_string(&mut framed, field));
        let good = dearmor(&key(1).sign(NAMESPACE, b"")).unwrap();
        let cut = &good[..length.min(good.len() - 1)];
        for blob in [&blob[..], &framed, cut] {
            prop_assert!(verify(&armor(blob), NAMESPACE, b"").is_err());
            let _ = PublicKey::from_blob(blob);
        }
    }
}
