//! The format of an export's files.

use schemars::JsonSchema;

store::text_enum! {
    /// The format of an export's files (`output_format`; own storage only).
    #[derive(Default, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    pub enum Format {
        #[default]
        Zip = "zip",
        Gzip = "gzip",
    }
}

impl Format {
    /// The file extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::Gzip => "gz",
        }
    }
}
