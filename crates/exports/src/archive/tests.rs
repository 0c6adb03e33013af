use std::io::{Cursor, Read, Seek, SeekFrom, Write as _};
use std::process::Command;

use proptest::prelude::*;

use super::*;

const TIME: &str = "2026-11-21T07:26:43Z";

fn time() -> Timestamp {
    TIME.parse().unwrap()
}

/// A gzip file of `raw` with the entry name `name`.
fn gzip(name: &str, raw: &[u8], time: Timestamp) -> io::Result<Vec<u8>> {
    Ok(pack(Shape::Gzip, name, raw, time)?.bytes)
}

/// A ZIP of one entry.
fn zip_file(name: &str, raw: &[u8], time: Timestamp) -> io::Result<Vec<u8>> {
    Ok(pack(Shape::Zip, name, raw, time)?.bytes)
}

/// A segment of a ZIP.
fn segment(name: &str, raw: &[u8], time: Timestamp) -> io::Result<Packed> {
    pack(Shape::Segment, name, raw, time)
}

fn pack(shape: Shape, name: &str, raw: &[u8], time: Timestamp) -> io::Result<Packed> {
    let mut packer = Packer::new(shape, name.to_owned(), time);
    packer.append(|buffer| buffer.extend_from_slice(raw))?;
    packer.finish()
}

fn entry(name: &str, segment: &Packed) -> Entry {
    Entry {
        name: name.to_owned(),
        crc32: segment.crc32,
        raw_bytes: segment.raw_bytes,
        stored_bytes: segment.bytes.len() as u64,
    }
}

/// A ZIP put together like the finisher's.
fn zip_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut entries = Vec::new();
    for (name, raw) in files {
        let segment = segment(name, raw, time()).unwrap();
        entries.push(entry(name, &segment));
        bytes.extend(segment.bytes);
    }
    bytes.extend(central_directory(&entries, time()));
    bytes
}

fn read_entry<R: Read + Seek>(zip: &mut zip::ZipArchive<R>, index: usize) -> (String, Vec<u8>) {
    let mut file = zip.by_index(index).unwrap();
    let mut raw = Vec::new();
    file.read_to_end(&mut raw).unwrap();
    (file.name().unwrap().into_owned(), raw)
}

fn gunzip(bytes: &[u8]) -> (String, Vec<u8>) {
    let mut decoder = flate2::read::MultiGzDecoder::new(bytes);
    let mut raw = Vec::new();
    decoder.read_to_end(&mut raw).unwrap();
    let header = decoder.header().unwrap();
    assert_eq!(i64::from(header.mtime()), time().as_second());
    (String::from_utf8(header.filename().unwrap().to_vec()).unwrap(), raw)
}

proptest! {
    #[test]
    fn a_zip_of_segments_reads_back(
        files in prop::collection::btree_map("[a-z0-9_äß漢]{1,30}\\.json", any::<Vec<u8>>(), 0..8)
    ) {
        let files: Vec<_> = files.into_iter().collect();
        let mut zip = zip::ZipArchive::new(Cursor::new(zip_of(&files))).unwrap();
        prop_assert_eq!(zip.len(), files.len());
        for (index, file) in files.iter().enumerate() {
            prop_assert_eq!(&read_entry(&mut zip, index), file);
        }
    }

    #[test]
    fn one_file_reads_back_in_either_format(raw: Vec<u8>, name in "[a-z0-9_-]{1,60}\\.json") {
        let zip = zip_file(&name, &raw, time()).unwrap();
        let mut zip = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
        prop_assert_eq!(zip.len(), 1);
        prop_assert_eq!(read_entry(&mut zip, 0), (name.clone(), raw.clone()));
        prop_assert_eq!(gunzip(&gzip(&name, &raw, time()).unwrap()), (name, raw));
    }
}

#[test]
fn an_entry_is_dated_and_a_plain_text_file() {
    let bytes = zip_file("a.json", b"{}\n", time()).unwrap();
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let file = zip.by_index(0).unwrap();
    let date = file.last_modified().unwrap();
    assert_eq!(date.to_string(), "2026-11-21 07:26:42");
    assert_eq!(file.unix_mode(), Some(0o100_644));
    assert!(file.is_file());
}

#[test]
fn attempts_at_the_same_data_give_the_same_bytes() {
    for shape in [Shape::Zip, Shape::Gzip, Shape::Segment] {
        let pack = || pack(shape, "a.json", b"{\"a\":1}\n", time()).unwrap().bytes;
        assert_eq!(pack(), pack());
    }
}

#[test]
fn a_zip_without_entries_is_valid() {
    let bytes = central_directory(&[], time());
    assert_eq!(zip::ZipArchive::new(Cursor::new(&bytes)).unwrap().len(), 0);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty.zip");
    std::fs::write(&path, bytes).unwrap();
    let listed = python(&format!(
        "import zipfile; print(len(zipfile.ZipFile({:?}).namelist()))",
        path.display()
    ));
    assert_eq!(listed.trim(), "0");
}

#[test]
fn more_entries_than_a_plain_zip_can_count() {
    for count in [65_534, 65_535, 65_536, 70_000] {
        let files: Vec<_> =
            (0..count).map(|n| (format!("{n}"), vec![b'0' + (n % 10) as u8])).collect();
        let mut zip = zip::ZipArchive::new(Cursor::new(zip_of(&files))).unwrap();
        assert_eq!(zip.len(), count);
        for index in [0, 1, 65_533, count - 1] {
            assert_eq!(read_entry(&mut zip, index), files[index]);
        }
    }
}

/// Pieces of a file that is zero everywhere else.
struct Sparse {
    pieces: Vec<(u64, Vec<u8>)>,
    length: u64,
    at: u64,
}

impl Read for Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min((self.length - self.at) as usize);
        buffer[..length].fill(0);
        let end = self.at + length as u64;
        for (start, piece) in &self.pieces {
            let (from, to) = (self.at.max(*start), end.min(start + piece.len() as u64));
            if from < to {
                buffer[(from - self.at) as usize..(to - self.at) as usize]
                    .copy_from_slice(&piece[(from - start) as usize..(to - start) as usize]);
            }
        }
        self.at = end;
        Ok(length)
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.filter(|at| *at <= self.length).ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// A ZIP of small entries with one between them that takes `gap` bytes (and must not be read),
/// described without writing it.
fn sparse(gap: u64) -> (Sparse, Vec<(String, Vec<u8>)>) {
    let files: Vec<_> = ["a.json", "b.json"].map(|n| (n.to_owned(), n.as_bytes().to_vec())).into();
    let [first, last] = [0, 1].map(|n| segment(&files[n].0, &files[n].1, time()).unwrap());
    let header = local_header("gap", 0, gap, gap, time());
    let mut entries = vec![entry("a.json", &first)];
    entries.push(Entry {
        name: "gap".into(),
        crc32: 0,
        raw_bytes: gap,
        stored_bytes: gap + header.len() as u64,
    });
    entries.push(entry("b.json", &last));
    let second_at = first.bytes.len() as u64;
    let third_at = second_at + header.len() as u64 + gap;
    let directory = central_directory(&entries, time());
    let directory_at = third_at + last.bytes.len() as u64;
    let length = directory_at + directory.len() as u64;
    let pieces = vec![
        (0, first.bytes),
        (second_at, header),
        (third_at, last.bytes),
        (directory_at, directory),
    ];
    (Sparse { pieces, length, at: 0 }, files)
}

#[test]
fn offsets_and_sizes_beyond_4_gib() {
    let limit = u64::from(u32::MAX);
    // On both sides of the limit: of the offset, of the directory, and of the sizes.
    for gap in [limit - 100, limit - 60, limit - 1, limit, limit + 1, 5 << 30] {
        let (file, files) = sparse(gap);
        let mut zip = zip::ZipArchive::new(file).unwrap();
        assert_eq!(zip.len(), 3, "{gap}");
        assert_eq!(read_entry(&mut zip, 0), files[0], "{gap}");
        assert_eq!(read_entry(&mut zip, 2), files[1], "{gap}");
        let large = zip.by_index_raw(1).unwrap();
        assert_eq!((large.size(), large.compressed_size()), (gap, gap));
    }
}

#[test]
fn python_reads_beyond_4_gib() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.zip");
    let mut file = std::fs::File::create(&path).unwrap();
    let (sparse, _) = sparse(5 << 30);
    for (start, piece) in &sparse.pieces {
        file.seek(SeekFrom::Start(*start)).unwrap();
        file.write_all(piece).unwrap();
    }
    drop(file);
    let read = python(&format!(
        "import zipfile; z = zipfile.ZipFile({:?}); \
         print(z.read('a.json'), z.read('b.json'), z.getinfo('gap').file_size)",
        path.display()
    ));
    assert_eq!(read.trim(), "b'a.json' b'b.json' 5368709120");
}

/// The system's tools, which customers usually have.
#[test]
fn other_programs_find_the_files_sound() {
    let directory = tempfile::tempdir().unwrap();
    let raw = "{\"first_name\":\"Zoë\"}\n".repeat(5_000).into_bytes();
    let files: Vec<_> =
        (1..4).map(|n| (format!("export-größe_{n:06}.json"), raw.clone())).collect();
    let zip = directory.path().join("all.zip");
    std::fs::write(&zip, zip_of(&files)).unwrap();
    let gzip_file = directory.path().join("one.gz");
    std::fs::write(&gzip_file, gzip("one_000001.json", &raw, time()).unwrap()).unwrap();

    run(Command::new("python3").args(["-m", "zipfile", "-t"]).arg(&zip));
    run(Command::new("gzip").arg("-t").arg(&gzip_file));
    let names = python(&format!(
        "import zipfile; print(zipfile.ZipFile({:?}).namelist()[0])",
        zip.display()
    ));
    assert_eq!(names.trim(), files[0].0);
    run(Command::new("gzip").args(["-d", "-N"]).arg(&gzip_file).current_dir(directory.path()));
    assert_eq!(std::fs::read(directory.path().join("one_000001.json")).unwrap(), raw);
}

fn python(program: &str) -> String {
    run(Command::new("python3").env("PYTHONIOENCODING", "utf-8").args(["-c", program]))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn times_outside_of_dos_are_put_to_its_ends() {
    assert_eq!(dos_time("1970-01-01T00:00:00Z".parse().unwrap()), 0x0021_0000);
    assert_eq!(dos_time("1980-01-01T00:00:02Z".parse().unwrap()), 0x0021_0001);
    assert_eq!(dos_time("2107-12-31T23:59:58Z".parse().unwrap()), 0xff9f_bf7d);
}
