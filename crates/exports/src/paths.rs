//! The paths of all objects of exports, below the storage's own prefix.

use jiff::civil::Date;
use uuid::Uuid;

/// The folder of own storage with only the files of one export and one date:
/// `segment-export/<SEGMENT_ID>/<YYYY-MM-dd>/<uuid>-<unix seconds>/`.
pub fn own_folder(segment_id: Uuid, date: Date, object_prefix: &str) -> String {
    format!("segment-export/{segment_id}/{date}/{object_prefix}/")
}

/// The folder of all private objects of an export.
pub fn private_folder(job: Uuid) -> String {
    format!("exports/{job}/")
}

/// The folder of the segments of an export's ZIP.
pub fn segments_folder(job: Uuid) -> String {
    format!("{}parts/", private_folder(job))
}

/// One part's segment of the ZIP behind `url`, with a name of its attempt.
pub fn segment(job: Uuid, part: i64, attempt: i32) -> String {
    format!("{}{part:06}.{attempt}", segments_folder(job))
}

/// The folder of the pieces of a part's large file while an attempt builds it.
pub fn pieces(job: Uuid, part: i64, attempt: i32) -> String {
    format!("{}.pieces/", segment(job, part, attempt))
}

/// The ZIP behind `url`, with a name of the finisher's attempt.
pub fn archive(job: Uuid, attempt: i32) -> String {
    format!("{}archive.{attempt}.zip", private_folder(job))
}

/// An object that proves an export, next to its folder in own storage.
pub fn own_proof(own_folder: &str, suffix: &str) -> String {
    format!("{}{suffix}", own_folder.trim_end_matches('/'))
}

/// An object that proves an export without own storage.
pub fn private_proof(job: Uuid, suffix: &str) -> String {
    format!("{}export{suffix}", private_folder(job))
}

/// The export of an [`archive`] or of a [`private_proof`] with this path.
pub fn job_of_download(path: &str) -> Option<Uuid> {
    let (job, name) = path.strip_prefix("exports/")?.split_once('/')?;
    let is_served = name.starts_with("archive.") || name.starts_with("export.");
    is_served.then(|| Uuid::try_parse(job).ok())?
}
