use std::io::Read as _;

use super::*;

fn read_all(inputs: Vec<Input>, size: usize) -> Vec<Batch> {
    let (sender, mut receiver) = mpsc::channel(1_000);
    let (clock, currency) = (Clock::system(), "USD".to_owned());
    Reader { size, keep: true, clock, currency, alias: None }.read(inputs, &sender);
    drop(sender);
    std::iter::from_fn(|| receiver.blocking_recv()).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::bufread::GzEncoder::new(text.as_bytes(), Default::default());
    let mut bytes = Vec::new();
    encoder.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn blank_lines_are_skipped_and_bad_ones_are_named() {
    let long = format!("{{\"email\":\"{}\"}}", "x".repeat(MAX_LINE));
    let text = format!(
        "\u{feff}{{\"email\":\"a@b\"}}\r\n\n  \n{{\n{long}\n{{\"email\":\"c@d\"}}\n\u{1}\nlast"
    );
    let batches = read_all(vec![Input::new("a.json", std::io::Cursor::new(text))], 100);
    let [batch] = batches.as_slice() else { panic!("one batch") };
    assert_eq!(batch.records.len(), 2);
    assert_eq!(batch.origins.iter().map(|origin| origin.line).collect::<Vec<_>>(), [1, 6]);
    assert_eq!(batch.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [4, 5, 7, 8]);
    assert_eq!(batch.bad[1].reason, "longer than 4 MiB");
    let texts: Vec<&[u8]> = batch.bad.iter().map(|bad| bad.text.as_slice()).collect();
    assert_eq!(texts, [&b"{\n"[..], b"", b"\x01\n", b"last"]);
    assert_eq!(batch.lines, 6);
}

#[test]
fn unknown_file_formats_are_not_read() {
    let csv = "\nexternal_id,email\nann,ann@acme.example\n";
    let batches = read_all(
        vec![
            Input::new("a.txt", std::io::Cursor::new(csv)),
            Input::new("b.json", std::io::Cursor::new("{\"email\":\"a@b\"}")),
        ],
        100,
    );
    let [batch] = batches.as_slice() else { panic!("one batch") };
    assert_eq!((batch.records.len(), batch.bad.len(), batch.broken_files), (1, 1, 1));
    let bad = &batch.bad[0];
    assert!((bad.file.as_str(), bad.line) == ("a.txt", 2) && bad.reason.contains("CSV"));
    assert!(bad.text.is_empty());
}

#[test]
fn gzip_is_unpacked_and_truncation_is_reported() {
    let packed = gzip("{\"email\":\"a@b\"}\n{\"email\":\"c@d\"}\n");
    // Two gzip members, as in `cat a.gz b.gz`.
    let twice = [packed.clone(), packed.clone()].concat();
    let torn = packed[..packed.len() - 6].to_vec();
    let batches = read_all(
        vec![
            Input::new("twice.gz", std::io::Cursor::new(twice)),
            Input::new("torn.gz", std::io::Cursor::new(torn)),
            Input::new("plain", std::io::Cursor::new("{\"email\":\"e@f\"}")),
        ],
        2,
    );
    let records: usize = batches.iter().map(|batch| batch.records.len()).sum();
    assert_eq!(records, 4 + 2 + 1);
    assert_eq!(batches.iter().map(|batch| batch.broken_files).sum::<u64>(), 1);
    let bad: Vec<_> = batches.iter().flat_map(|batch| &batch.bad).collect();
    assert_eq!((bad.len(), bad[0].file.as_str(), bad[0].line), (1, "torn.gz", 3));
    let read = format!("after 2 lines and {} bytes", packed.len() - 6);
    assert!(bad[0].reason.contains(&read), "{}", bad[0].reason);
    assert!(bad[0].reason.contains("truncated"), "{}", bad[0].reason);
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

/// A ZIP of these files, compressed or not, with sizes after the data or before.
fn zip(files: &[(&str, &[u8])], is_compressed: bool, has_descriptor: bool) -> Vec<u8> {
    let mut zip = Vec::new();
    for (name, data) in files {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let mut stored = data.to_vec();
        if is_compressed {
            stored.clear();
            let mut encoder = flate2::bufread::DeflateEncoder::new(*data, Default::default());
            encoder.read_to_end(&mut stored).unwrap();
        }
        let sizes = [crc.sum(), stored.len() as u32, data.len() as u32];
        let flags = if has_descriptor { 8_u16 } else { 0 };
        let method = if is_compressed { 8_u16 } else { 0 };
        zip.extend_from_slice(b"PK\x03\x04\x14\0");
        zip.extend_from_slice(&flags.to_le_bytes());
        zip.extend_from_slice(&method.to_le_bytes());
        zip.extend_from_slice(&[0; 4]);
        for size in sizes {
            zip.extend_from_slice(&if has_descriptor { 0 } else { size }.to_le_bytes());
        }
        zip.extend_from_slice(&(name.len() as u16).to_le_bytes());
        zip.extend_from_slice(&[0; 2]);
        zip.extend_from_slice(name.as_bytes());
        zip.extend_from_slice(&stored);
        if has_descriptor {
            zip.extend_from_slice(b"PK\x07\x08");
            sizes.iter().for_each(|size| zip.extend_from_slice(&size.to_le_bytes()));
        }
    }
    zip.extend_from_slice(b"PK\x05\x06");
    zip.extend_from_slice(&[0; 18]);
    zip
}

/// The email addresses that were read from bytes, and the reasons of what was not.
fn read_bytes(bytes: Vec<u8>) -> (Vec<String>, Vec<BadLine>) {
    let batches = read_all(vec![Input::new("-", std::io::Cursor::new(bytes))], 100);
    let (mut emails, mut bad) = (Vec::new(), Vec::new());
    for mut batch in batches {
        emails.extend(batch.records.into_iter().filter_map(|record| record.email));
        bad.append(&mut batch.bad);
    }
    (emails, bad)
}

#[test]
fn forms_are_recognized_by_their_content() {
    let text = "{\"email\":\"a@b\"}\n{\"email\":\"ö@d\",\"first_name\":\"😀\"}";
    let bom = format!("\u{feff}{text}");
    let (little, big) = (utf16(&bom, u16::to_le_bytes), utf16(&bom, u16::to_be_bytes));
    let once = gzip(text);
    let mut twice = Vec::new();
    let mut encoder = flate2::bufread::GzEncoder::new(&once[..], Default::default());
    encoder.read_to_end(&mut twice).unwrap();
    for bytes in [
        bom.clone().into_bytes(),
        little.clone(),
        big,
        utf16(text, u16::to_le_bytes),
        utf16(&format!("\n{text}"), u16::to_le_bytes),
        utf16(&format!("\r\n\n{text}"), u16::to_be_bytes),
        utf16(&format!("\u{20}\t{text}"), u16::to_le_bytes),
        format!("\n\n\n\n\n\n\n{text}").into_bytes(),
        once.clone(),
        twice,
        zip(&[("a", text.as_bytes())], true, false),
        zip(&[("a/", b""), ("a/b", text.as_bytes())], true, true),
        zip(&[("__MACOSX/a", b"\0"), ("b", &little)], false, false),
        zip(&[(".DS_Store", b"\0\0Bud1"), ("b", &little)], false, false),
        zip(
            &[("a/Thumbs.db", b"\xd0\xcf"), ("a/b", &little), ("a/Desktop.ini", b"[x]")],
            true,
            true,
        ),
        zip(&[("a.gz", &once)], false, false),
    ] {
        let (emails, bad) = read_bytes(bytes.clone());
        assert_eq!((emails.join(" "), bad), ("a@b ö@d".to_owned(), vec![]), "{bytes:?}");
    }
    // Large enough for several buffers.
    let many = format!("{text}\n").repeat(20_000);
    for bytes in [
        utf16(&format!("\u{feff}{many}"), u16::to_be_bytes),
        zip(&[("a", many.as_bytes()), ("b", many.as_bytes())], true, true),
        zip(&[("a", many.as_bytes()), ("b", many.as_bytes())], false, false),
    ] {
        let (emails, bad) = read_bytes(bytes);
        assert!(emails.len() >= 40_000 && bad.is_empty(), "{} {:?}", emails.len(), bad.first());
    }
    assert_eq!(read_bytes(zip(&[], true, false)), (vec![], vec![]));
    assert_eq!(read_bytes(Vec::new()), (vec![], vec![]));
    assert_eq!(read_bytes("\u{feff}".into()), (vec![], vec![]));
    // Joined files.
    let joined = format!("{bom}\n{bom}");
    assert_eq!(read_bytes(joined.into_bytes()).0.len(), 4);
}

#[test]
fn forms_that_cannot_be_read_are_named_once() {
    let line = "{\"email\":\"a@b\"}";
    let lines = format!("{line}\n{line}\n");
    let mut encrypted = zip(&[("a", lines.as_bytes())], true, false);
    encrypted[6] |= 1;
    let mut damaged = zip(&[("a", lines.as_bytes())], false, false);
    damaged[14] ^= 1;
    let archive = zip(&[("a", lines.as_bytes()), ("b", lines.as_bytes())], true, false);
    let joined = [lines.as_bytes(), &utf16(&format!("\u{feff}{lines}"), u16::to_le_bytes)];
    let mut many_times = lines.clone().into_bytes();
    for _ in 0..10 {
        let mut packed = Vec::new();
        let mut encoder = flate2::bufread::GzEncoder::new(&many_times[..], Default::default());
        encoder.read_to_end(&mut packed).unwrap();
        many_times = packed;
    }
    for (bytes, part, read) in [
        (b"\x28\xb5\x2f\xfd\n\n\n".to_vec(), "Zstandard", 0),
        (b"\xff\xfe\0\0{\0\0\0\n\0\0\0".to_vec(), "UTF-32", 0),
        (encrypted, "encrypted", 0),
        (zip(&[("b", &archive)], false, false), "ZIP inside a ZIP", 0),
        (archive[..archive.len() - 22].to_vec(), "truncated", 4),
        (damaged, "damaged", 2),
        (many_times, "more than 4 times", 0),
        (joined.concat(), "UTF-16", 2),
        (zip(&[("a", b"id,email\n1,2\n")], true, false), "CSV", 0),
        (utf16("id,email\n1,2\n", u16::to_le_bytes), "CSV", 0),
        ([gzip(&lines), lines.clone().into_bytes()].concat(), "other data follows", 2),
        ([gzip(&lines), b"\n".to_vec()].concat(), "other data follows", 2),
        ([&*archive, &*archive].concat(), "after the ZIP", 4),
    ] {
        let (emails, bad) = read_bytes(bytes);
        let reasons: Vec<&str> = bad.iter().map(|bad| bad.reason.as_str()).collect();
        assert!(reasons.len() == 1 && reasons[0].contains(part), "{part}: {reasons:?}");
        assert_eq!(emails.len(), read, "{part}");
    }
    // Only the joint is lost.
    let joint = format!("{line}\u{feff}{line}\n{line}\n");
    let (emails, bad) = read_bytes(joint.into_bytes());
    assert!(emails.len() == 1 && bad.len() == 1 && bad[0].reason.contains("joined"), "{bad:?}");
    // Bytes that are not UTF-16.
    let mut broken = utf16(&format!("\u{feff}{line}\n"), u16::to_le_bytes);
    broken.extend([b'{', 0, 0, 0xd8, b'\n', 0]);
    broken.extend(utf16(line, u16::to_le_bytes));
    let (emails, bad) = read_bytes(broken);
    assert!(emails.len() == 2 && bad.len() == 1 && bad[0].line == 2, "{bad:?}");
}

#[test]
fn a_broken_file_of_an_archive_does_not_end_it() {
    let line = |name: &str| format!("{{\"email\":\"{name}@b\"}}\n");
    // Large and hard to compress, so that there is data before and after the damage.
    let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let long: String = (0..50_000).map(|n| line(&format!("{:x}", number(n)))).collect();
    let (first, last) = (line("first"), line("last"));
    let files = [("a", first.as_bytes()), ("b", long.as_bytes()), ("c", last.as_bytes())];
    for (is_compressed, has_descriptor) in [(true, false), (true, true), (false, false)] {
        let end = |count: usize| zip(&files[..count], is_compressed, has_descriptor).len() - 22;
        let intact = zip(&files, is_compressed, has_descriptor);
        for change in ["encrypted", "other method", "damaged", "wrong checksum"] {
            let mut bytes = intact.clone();
            let file = &mut bytes[end(1)..end(2)];
            let length = file.len();
            match change {
                "encrypted" => file[6] |= 1,
                "other method" => file[8] = 93,
                "damaged" => file[length / 2..][..500].fill(0xff),
                _ => file[if has_descriptor { length - 12 } else { 14 }] ^= 1,
            }
            let (emails, bad) = read_bytes(bytes);
            let case = format!("{change} {is_compressed} {has_descriptor} {:?}", bad.first());
            assert!(!bad.is_empty() && bad.iter().all(|bad| bad.file == "-/b"), "{case}");
            assert_eq!(emails.first().map(String::as_str), Some("first@b"), "{case}");
            assert_eq!(emails.last().map(String::as_str), Some("last@b"), "{case}");
            let is_read = ["damaged", "wrong checksum"].contains(&change);
            assert_eq!(emails.len() > 2, is_read, "{case}");
        }
    }
    for inside in [zip(&[], true, false), gzip(&first)[..10].to_vec(), b"BZh91AY".to_vec()] {
        let files = [files[0], ("b", inside.as_slice()), files[2]];
        let (emails, bad) = read_bytes(zip(&files, true, true));
        assert_eq!((emails.join(" "), bad.len()), ("first@b last@b".to_owned(), 1), "{bad:?}");
        assert_eq!(bad[0].file, "-/b");
    }
}
