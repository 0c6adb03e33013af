//! Conversions of columns: rows to structs, and enums stored as text.
//!
//! sqlx's derive macros would compile it, both drivers and SQLite again for the build host.

use sqlx::error::BoxDynError;

/// Reads a struct from the columns that are named like its fields, in both databases. Fields
/// behind `flatten` are structs that are read from the same row:
///
/// ```text
/// from_row! { Place { consumer_group, partition, log_id, next } }
/// from_row! { PartToDo { plan } flatten { job, part } }
/// from_row! { KeyInfo { id, name } json { allow } }
/// ```
///
/// Fields behind `json` are [documents](crate::documents) in columns of that name; errors name
/// the row by the first field.
#[macro_export]
macro_rules! from_row {
    ($name:ident { $first:ident $(, $field:ident)* $(,)? } json { $($json:ident),+ $(,)? }) => {
        $crate::from_row!(# sqlx::postgres::PgRow, $name, $first [$($field)*] [$($json)+]);
        $crate::from_row!(# sqlx::sqlite::SqliteRow, $name, $first [$($field)*] [$($json)+]);
    };
    (# $row:ty, $name:ident, $first:ident [$($field:ident)*] [$($json:ident)+]) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                let $first = row.try_get(stringify!($first))?;
                Ok(Self {
                    $($json: $crate::documents::column(
                        concat!(stringify!($name), ".", stringify!($json)),
                        &$first,
                        row.try_get(stringify!($json))?,
                    )?,)*
                    $($field: row.try_get(stringify!($field))?,)*
                    $first,
                })
            }
        }
    };
    ($name:ident { $($field:ident),* $(,)? } $(flatten { $($flat:ident),+ $(,)? })?) => {
        $crate::from_row!(@ sqlx::postgres::PgRow, $name, [$($field)*], [$($($flat)+)?]);
        $crate::from_row!(@ sqlx::sqlite::SqliteRow, $name, [$($field)*], [$($($flat)+)?]);
    };
    (@ $row:ty, $name:ident, [$($field:ident)*], [$($flat:ident)*]) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> Result<Self, sqlx::Error> {
                #[allow(unused_imports, reason = "a row may be of flattened structs only")]
                use sqlx::Row as _;
                Ok(Self {
                    $($field: row.try_get(stringify!($field))?,)*
                    $($flat: sqlx::FromRow::from_row(row)?,)*
                })
            }
        }
    };
}

/// An enum of [`named!`](kit::named) values that are texts in the database and in JSON.
///
/// ```text
/// text_enum! {
///     /// How far a delivery has come.
///     #[derive(clap::ValueEnum)]
///     pub enum State {
///         Pending = "pending",
///     }
/// }
/// ```
#[macro_export]
macro_rules! text_enum {
    (
        $(#[$outer:meta])*
        $vis:vis enum $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $crate::named! {
            $(#[$outer])*
            $vis enum $name { $($(#[$inner])* $variant = $text,)+ }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
                Self::from_name(&name)
                    .ok_or_else(|| serde::de::Error::unknown_variant(&name, &[$($text),+]))
            }
        }

        $crate::text_enum!(@ sqlx::Postgres, $name);
        $crate::text_enum!(@ sqlx::Sqlite, $name);
    };
    (@ $database:ty, $name:ident) => {
        impl sqlx::Type<$database> for $name {
            fn type_info() -> <$database as sqlx::Database>::TypeInfo {
                <str as sqlx::Type<$database>>::type_info()
            }

            fn compatible(info: &<$database as sqlx::Database>::TypeInfo) -> bool {
                <str as sqlx::Type<$database>>::compatible(info)
            }
        }

        impl sqlx::Encode<'_, $database> for $name {
            fn encode_by_ref(
                &self,
                buffer: &mut <$database as sqlx::Database>::ArgumentBuffer,
            ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                sqlx::Encode::<$database>::encode(self.name(), buffer)
            }
        }

        impl<'r> sqlx::Decode<'r, $database> for $name {
            fn decode(
                value: <$database as sqlx::Database>::ValueRef<'r>,
            ) -> Result<Self, sqlx::error::BoxDynError> {
                let name = <&str as sqlx::Decode<'r, $database>>::decode(value)?;
                Self::from_name(name)
                    .ok_or_else(|| $crate::columns::unknown(stringify!($name), name))
            }
        }
    };
}

/// The error for a column with a name that this program does not know.
pub fn unknown(kind: &str, name: &str) -> BoxDynError {
    format!("{name:?} is not a value of {kind}").into()
}
