//! Every object's path comes from here.

use jiff::civil::Date;
use uuid::Uuid;

/// What an object is, which says where it lies (below the storage's own prefix).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKey {
    /// A file of an export to own storage (Delivery rule 1 of the export):
    /// `segment-export/<SEGMENT_ID>/<YYYY-MM-dd>/<uuid>-<unix seconds>/<name>.<extension>`.
    ExportFile {
        segment_id: Uuid,
        date: Date,
        object_prefix: String,
        name: String,
        extension: &'static str,
    },
    /// One part's stretch of the ZIP behind `url`, private, under a name of its attempt.
    ExportSegment { job: Uuid, part: i64, attempt: i32 },
    /// The ZIP behind `url`, under a name of the finisher's attempt.
    ExportArchive { job: Uuid, attempt: i32 },
    /// What `apply` and `doctor` try a storage with.
    Probe { id: Uuid, name: &'static str },
}

impl ObjectKey {
    pub fn path(&self) -> String {
        match self {
            Self::ExportFile { segment_id, date, object_prefix, name, extension } => {
                format!("{}{name}.{extension}", export_folder(*segment_id, *date, object_prefix))
            }
            Self::ExportSegment { job, part, attempt } => {
                format!("{}{part:06}.{attempt}", export_segments_prefix(*job))
            }
            Self::ExportArchive { job, attempt } => {
                format!("{}archive.{attempt}.zip", export_prefix(*job))
            }
            Self::Probe { id, name } => format!("{}{name}", probe_prefix(*id)),
        }
    }
}

impl ObjectKey {
    /// The export whose [archive](Self::ExportArchive) lies at a path.
    pub fn job_of_archive(path: &str) -> Option<Uuid> {
        let (job, name) = path.strip_prefix("exports/")?.split_once('/')?;
        name.starts_with("archive.").then(|| Uuid::try_parse(job).ok())?
    }
}

/// Where the objects of one trial lie.
pub fn probe_prefix(id: Uuid) -> String {
    format!("longshore-probe/{id}/")
}

/// Where all private objects of an export lie: removed as a whole.
pub fn export_prefix(job: Uuid) -> String {
    format!("exports/{job}/")
}

/// Where all segments of an export's ZIP lie.
pub fn export_segments_prefix(job: Uuid) -> String {
    format!("{}parts/", export_prefix(job))
}

/// Where the files of one export lie in own storage that have one date, and nothing else.
pub fn export_folder(segment_id: Uuid, date: Date, object_prefix: &str) -> String {
    format!("segment-export/{segment_id}/{date}/{object_prefix}/")
}
