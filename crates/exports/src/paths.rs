//! The paths of all objects of exports, below the storage's own prefix.

use jiff::civil::Date;
use url::form_urlencoded;
use uuid::Uuid;

use gateway::workspaces::storage::Settings;

/// The folder of own storage with only the files of one export and one date:
/// `segment-export/<SEGMENT_ID>/<YYYY-MM-dd>/<uuid>-<unix seconds>/`.
pub fn own_folder(segment_id: Uuid, date: Date, object_prefix: &str) -> String {
    format!("{}/{object_prefix}/", own_day(segment_id, date))
}

/// The folder of own storage with the exports of a segment and a date.
fn own_day(segment_id: Uuid, date: Date) -> String {
    format!("segment-export/{segment_id}/{date}")
}

/// Where `longshore export verify` finds the exports of a segment and a date in own storage, without
/// credentials.
pub fn own_address(settings: &Settings, segment_id: Uuid, date: Date) -> String {
    let (start, prefix, parameters) = match settings {
        Settings::S3(s3) => (
            format!("s3://{}", s3.bucket),
            &s3.prefix,
            [
                ("region", s3.region.as_deref()),
                ("endpoint", s3.endpoint.as_deref()),
                ("path_style", s3.path_style.then_some("true")),
            ],
        ),
        Settings::Azure(azure) => (
            format!("azure://{}", azure.container),
            &azure.prefix,
            [
                ("account", Some(azure.account.as_str())),
                ("endpoint", azure.endpoint.as_deref()),
                ("", None),
            ],
        ),
    };
    let prefix = prefix.trim_matches('/');
    let slash = if prefix.is_empty() { "" } else { "/" };
    let parameters = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let mark = if query.is_empty() { "" } else { "?" };
    let day = own_day(segment_id, date);
    format!("{start}/{prefix}{slash}{day}{mark}{query}")
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

/// Whether an object is an [`archive`] of the export, of whichever attempt.
pub fn is_archive(job: Uuid, key: &str) -> bool {
    key.strip_prefix(&private_folder(job)).is_some_and(|name| name.starts_with("archive."))
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
