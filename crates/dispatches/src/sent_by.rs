//! The channels of a dispatch, for lists in which a person looks for one send of many.

use serde::Serialize;

use gateway::workspaces::Channel;

/// The channels of a dispatch's messages. Those of a newer release are not among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DispatchChannels(pub Vec<Channel>);

impl DispatchChannels {
    /// Reads names that commas separate.
    fn read(names: &str) -> Self {
        let mut channels: Vec<Channel> = names.split(',').filter_map(Channel::from_name).collect();
        channels.sort_unstable();
        Self(channels)
    }

    /// In one line, for a table.
    pub fn in_words(&self) -> String {
        self.0.iter().map(|channel| channel.name()).collect::<Vec<_>>().join(", ")
    }
}

macro_rules! read_from {
    ($row:ty) => {
        impl sqlx::FromRow<'_, $row> for DispatchChannels {
            fn from_row(row: &$row) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                let names: Option<&str> = row.try_get("channels")?;
                Ok(Self::read(names.unwrap_or_default()))
            }
        }
    };
}
read_from!(sqlx::postgres::PgRow);
read_from!(sqlx::sqlite::SqliteRow);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_channels_are_ignored() {
        let read = |names| DispatchChannels::read(names).in_words();
        assert_eq!(read("sms,fax,email"), "email, sms");
        assert_eq!(read(""), "");
    }
}
