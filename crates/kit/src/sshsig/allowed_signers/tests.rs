use proptest::prelude::*;

use super::*;
use crate::sshsig::PrivateKey;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPguMsZvU7+nKh6HkYFhvZU0W391Qj+2zwOwXBil3JmH";
const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDB";
const NAMESPACE: &str = "export";

/// 2026-01-01T00:00:00Z.
const TIME: i64 = 1_767_225_600_000;

fn key() -> PublicKey {
    KEY.parse().unwrap()
}

fn other_key() -> PublicKey {
    PrivateKey::from_seed(&[1; 32]).public_key()
}

fn find(file: &str, principal: Option<&str>, time: i64) -> Result<(), SignerError> {
    AllowedSigners::parse(file).unwrap().find(&key(), principal, NAMESPACE, time).map(drop)
}

#[test]
fn a_byte_order_mark_is_named() {
    let error = AllowedSigners::parse(&format!("\u{feff}acme {KEY}\n")).unwrap_err();
    assert_eq!(error.line, 1);
    assert!(error.to_string().contains("byte order mark (BOM)"), "{error}");
}

#[test]
fn lines_that_allow_a_key_are_found() {
    for line in [
        format!("acme {KEY}"),
        format!("acme {KEY} a comment with \"a quote"),
        format!("  acme\t{KEY}\r"),
        format!("other,acme {KEY}"),
        format!("\"acme,acme corp\" {KEY}"),
        format!("ac*,!acme-test {KEY}"),
        format!("acme namespaces=\"file,exp?rt\" {KEY}"),
        format!("acme Namespaces=\"*\",valid-after=\"20260101\" {KEY}"),
        format!("acme valid-after=\"20251231235959Z\",valid-before=\"202601010000\" {KEY}"),
        format!("acme valid-before=\"99991231Z\" {KEY}"),
        format!("# a comment\n\nacme {RSA}\nacme no-option {RSA}\nacme {KEY}"),
        format!("acme cert-authority {KEY}\nacme namespaces=\"file\" {KEY}\nacme {KEY}"),
    ] {
        assert_eq!(find(&line, Some("acme"), TIME), Ok(()), "{line}");
        assert_eq!(find(&line, None, TIME), Ok(()), "{line}");
    }
}

#[test]
fn a_key_is_refused_with_the_reason() {
    let key = key();
    assert_eq!(find("", None, TIME), Err(SignerError::Key(key)));
    let other = format!("acme {}", other_key());
    assert_eq!(find(&other, None, TIME), Err(SignerError::Key(key)));
    let certificates = format!("acme cert-authority {KEY}");
    assert_eq!(find(&certificates, None, TIME), Err(SignerError::Key(key)));
    for patterns in ["other", "*,!acme", "acm", "acme?", "\"acme corp\"", "ACME"] {
        let error = SignerError::Principal { key, principal: "acme".into() };
        assert_eq!(find(&format!("{patterns} {KEY}"), Some("acme"), TIME), Err(error));
    }
    let error = SignerError::Namespace { key, namespace: NAMESPACE.into() };
    assert_eq!(find(&format!("acme namespaces=\"file\" {KEY}"), None, TIME), Err(error));
}

#[test]
fn both_ends_of_the_validity_are_included_and_a_second_is_a_time() {
    let line = format!("acme valid-after=\"20260101Z\",valid-before=\"20260101000001Z\" {KEY}");
    for time in [TIME, TIME + 1, TIME + 1_000, TIME + 1_999] {
        assert_eq!(find(&line, None, time), Ok(()));
    }
    assert!(matches!(find(&line, None, TIME - 1), Err(SignerError::TooEarly { .. })));
    assert!(matches!(find(&line, None, TIME + 2_000), Err(SignerError::TooLate { .. })));
}

#[test]
fn invalid_lines_are_reported_with_their_number() {
    for line in [
        "acme".to_owned(),
        KEY.to_owned(),
        "acme ssh-ed25519 AAAA".to_owned(),
        format!("\"acme {KEY}"),
        format!("acme namespaces=file {KEY}"),
        format!("acme namespaces=\"a\"valid-after=\"2026\" {KEY}"),
        format!("acme namespaces=\"a\",namespaces=\"b\" {KEY}"),
        format!("acme namespaces=\"a\", {KEY}"),
        format!("acme valid-after {KEY}"),
        format!("acme valid-after=\"2026\" {KEY}"),
        format!("acme valid-after=\"2026-01-01\" {KEY}"),
        format!("acme valid-after=\"20261301Z\" {KEY}"),
        format!("acme valid-after=\"20260101Z\",valid-before=\"20260101Z\" {KEY}"),
        format!("acme other-option {KEY}"),
    ] {
        let error = AllowedSigners::parse(&format!("acme {KEY}\n{line}\n")).unwrap_err();
        assert_eq!(error.line, 2, "{line}");
    }
}

proptest! {
    #[test]
    fn written_lines_are_read_as_they_were(
        principals in "[a-zA-Z0-9._-]{1,20}",
        namespaces in prop::option::of("[a-z-]{1,20}"),
        valid_after in prop::option::of(0..4_000_000_000_i64),
        valid_for in prop::option::of(1..1_000_000_000_i64),
        comment in "([a-z]{1,8}( [a-z0-9:]{1,8}){0,2})?",
        seed: [u8; 32],
    ) {
        let valid_before = valid_for.map(|seconds| valid_after.unwrap_or_default() + seconds);
        let signer = AllowedSigner {
            principals,
            namespaces,
            valid_after: valid_after.map(|seconds| seconds * 1_000),
            valid_before: valid_before.map(|seconds| seconds * 1_000),
            key: PrivateKey::from_seed(&seed).public_key(),
            comment,
        };
        let read = AllowedSigners::parse(&format!("{signer}\n{signer}\n"));
        prop_assert_eq!(read, Ok(AllowedSigners(vec![signer.clone(), signer])));
    }

    #[test]
    fn hostile_files_never_panic(
        text in "\\PC*",
        pieces in prop::collection::vec(
            prop_oneof![
                Just("acme "), Just("\""), Just("\\"), Just(","), Just("="), Just("!*"),
                Just("namespaces"), Just("valid-after=\"2026"), Just(" "), Just("\n"),
                Just(KEY), Just("é"),
            ],
            0..20,
        ),
    ) {
        for text in [text, pieces.concat()] {
            if let Ok(signers) = AllowedSigners::parse(&text) {
                let found = signers.find(&key(), Some("acme"), NAMESPACE, i64::MIN);
                let _ = found.map_err(|error| error.to_string());
                let found = signers.find(&key(), None, &text, i64::MAX);
                let _ = found.map_err(|error| error.to_string());
            }
        }
    }

    #[test]
    fn patterns_match_like_regular_expressions(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
        // Each position of the pattern that the text so far can reach.
        let mut reached = vec![false; pattern.len() + 1];
        reached[0] = true;
        let pass_stars = |reached: &mut Vec<bool>| {
            for (index, byte) in pattern.bytes().enumerate() {
                reached[index + 1] |= byte == b'*' && reached[index];
            }
        };
        pass_stars(&mut reached);
        for byte in text.bytes() {
            let mut next = vec![false; reached.len()];
            for (index, expected) in pattern.bytes().enumerate().filter(|(at, _)| reached[*at]) {
                next[index] |= expected == b'*';
                next[index + 1] |= expected == b'?' || expected == byte;
            }
            pass_stars(&mut next);
            reached = next;
        }
        prop_assert_eq!(matches(&pattern, &text), reached[pattern.len()]);
    }
}
