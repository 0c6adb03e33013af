//! Copies many new rows into a table of PostgreSQL. This takes less time than
//! `INSERT … ON CONFLICT`, but fails as a whole if a row exists.

use sqlx::Postgres;
use uuid::Uuid;

use crate::{OpenTransaction, StoreError};

/// Bytes that are sent at once.
const CHUNK: usize = 128 << 10;

/// The beginning of the binary format: a signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The number of fields that marks the end.
const END: i16 = -1;

/// Copies rows, in their order. `into` is the table with its columns; `fields` adds the value of
/// each column, in the same order. Do not cancel it unless the connection is closed then: sqlx does
/// not count the responses to an unfinished copy.
///
/// ```text
/// copy_rows(tx, "emails (workspace_id, email, service_id)", &new, |new, row| {
///     row.add(workspace).add(new.email.as_str()).add(new.service_id);
/// })
/// ```
pub async fn copy_rows<T>(
    tx: &mut OpenTransaction<Postgres>,
    into: &str,
    rows: &[T],
    fields: impl Fn(&T, &mut CopyRow<'_>),
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut copy = tx.copy_in_raw(&format!("COPY {into} FROM STDIN (FORMAT binary)")).await?;
    let mut bytes = HEADER.to_vec();
    for row in rows {
        CopyRow::write(&mut bytes, |copied| fields(row, copied));
        if bytes.len() >= CHUNK {
            copy.send(bytes.as_slice()).await?;
            bytes.clear();
        }
    }
    bytes.extend(END.to_be_bytes());
    copy.send(bytes.as_slice()).await?;
    copy.finish().await?;
    Ok(())
}

/// A row in the binary format: the number of its fields, then each with its length.
pub struct CopyRow<'a> {
    bytes: &'a mut Vec<u8>,
    fields: i16,
}

impl<'a> CopyRow<'a> {
    fn write(bytes: &'a mut Vec<u8>, add_fields: impl FnOnce(&mut Self)) {
        let start = bytes.len();
        bytes.extend([0; 2]);
        let mut row = Self { bytes, fields: 0 };
        add_fields(&mut row);
        let fields = row.fields.to_be_bytes();
        row.bytes[start..start + 2].copy_from_slice(&fields);
    }

    /// Adds the next field.
    pub fn add(&mut self, value: impl CopyValue) -> &mut Self {
        self.fields += 1;
        value.write(self.bytes);
        self
    }
}

/// A value that can be copied.
pub trait CopyValue {
    /// Appends the length in bytes and the value.
    fn write(&self, bytes: &mut Vec<u8>);
}

impl CopyValue for &[u8] {
    fn write(&self, bytes: &mut Vec<u8>) {
        // No value is longer: the format's limit is 1 GiB.
        bytes.extend((self.len() as i32).to_be_bytes());
        bytes.extend_from_slice(self);
    }
}

impl CopyValue for &str {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.as_bytes().write(bytes);
    }
}

macro_rules! copy_integers {
    ($($integer:ty),+) => {
        $(impl CopyValue for $integer {
            fn write(&self, bytes: &mut Vec<u8>) {
                self.to_be_bytes().as_slice().write(bytes);
            }
        })+
    };
}
copy_integers!(i16, i32, i64);

impl CopyValue for Uuid {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.as_bytes().as_slice().write(bytes);
    }
}

impl<V: CopyValue> CopyValue for Option<V> {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(bytes),
            None => bytes.extend((-1_i32).to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_binary_format() {
        let mut bytes = Vec::new();
        CopyRow::write(&mut bytes, |row| {
            row.add(7_i16).add("é").add(None::<i64>).add(Some(-1_i32)).add(Uuid::from_u128(5));
        });
        let fields: [&[u8]; 6] = [
            &[0, 5],
            &[0, 0, 0, 2, 0, 7],
            &[0, 0, 0, 2, 0xc3, 0xa9],
            &[255; 4],
            &[0, 0, 0, 4, 255, 255, 255, 255],
            &[0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5],
        ];
        assert_eq!(bytes, fields.concat());
    }
}
