//! The keys that may sign, as in a file for `ssh-keygen -Y verify -f` ("ALLOWED SIGNERS" in its
//! manual page).

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::DateTime;

use super::{KEY_TYPE, PublicKey, SshSigError};
use crate::clock::from_ms;
use crate::retry::Retry;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A line that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct InvalidLine {
    /// The first one is 1.
    pub line: usize,
    pub problem: String,
}

impl Retry for InvalidLine {}

/// Why a key may not sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    #[error("the key {} is not one of the allowed signers", .0.fingerprint())]
    Key(PublicKey),
    #[error("the key {} is not allowed to sign for {principal:?}", key.fingerprint())]
    Principal { key: PublicKey, principal: String },
    #[error("the key {} is not allowed to sign in the namespace {namespace:?}", key.fingerprint())]
    Namespace { key: PublicKey, namespace: String },
    #[error(
        "the key {} is valid only from {} on, not at {}",
        key.fingerprint(), from_ms(*valid_after), from_ms(*time)
    )]
    TooEarly { key: PublicKey, valid_after: i64, time: i64 },
    #[error(
        "the key {} was valid only until {}, not at {}",
        key.fingerprint(), from_ms(*valid_before), from_ms(*time)
    )]
    TooLate { key: PublicKey, valid_before: i64, time: i64 },
}

impl Retry for SignerError {}

/// The keys that may sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedSigners(pub Vec<AllowedSigner>);

/// A line: a key, and for what it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedSigner {
    /// Patterns with `*` and `?`, separated by commas. A pattern after `!` excludes.
    pub principals: String,
    /// The same for namespaces; none allows all.
    pub namespaces: Option<String>,
    /// The first and the last time at which the key is valid, in milliseconds since the epoch.
    pub valid_after: Option<i64>,
    pub valid_before: Option<i64>,
    pub key: PublicKey,
    pub comment: String,
}

impl AllowedSigners {
    /// Reads a file. Like `ssh-keygen`, it skips empty lines and comments. It also skips keys of
    /// other types, and those that sign only certificates. Times without `Z` are read as UTC.
    pub fn parse(text: &str) -> Result<Self, InvalidLine> {
        if text.starts_with('\u{feff}') {
            // It would become part of the first principal, for `ssh-keygen`, too.
            let problem =
                "the file begins with a byte order mark (BOM): save it as UTF-8 without it";
            return Err(InvalidLine { line: 1, problem: problem.to_owned() });
        }
        let mut signers = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let signer = parse_line(line);
            signers.extend(signer.map_err(|problem| InvalidLine { line: index + 1, problem })?);
        }
        Ok(Self(signers))
    }

    /// The line that allows `key` to sign in `namespace` at a time (milliseconds since the epoch).
    /// Without `principal`, any principal will do.
    pub fn find(
        &self,
        key: &PublicKey,
        principal: Option<&str>,
        namespace: &str,
        time_ms: i64,
    ) -> Result<&AllowedSigner, SignerError> {
        let mut reason = SignerError::Key(*key);
        for signer in self.0.iter().filter(|signer| signer.key == *key) {
            match signer.check(principal, namespace, time_ms) {
                Ok(()) => return Ok(signer),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }
}

impl AllowedSigner {
    fn check(
        &self,
        principal: Option<&str>,
        namespace: &str,
        time_ms: i64,
    ) -> Result<(), SignerError> {
        let key = self.key;
        if let Some(principal) = principal.filter(|name| !matches_list(&self.principals, name)) {
            return Err(SignerError::Principal { key, principal: principal.to_owned() });
        }
        if self.namespaces.as_ref().is_some_and(|allowed| !matches_list(allowed, namespace)) {
            return Err(SignerError::Namespace { key, namespace: namespace.to_owned() });
        }
        // Like in a file, a second is a time.
        let time = time_ms.saturating_sub(time_ms.rem_euclid(1_000));
        if let Some(valid_after) = self.valid_after.filter(|first| time < *first) {
            return Err(SignerError::TooEarly { key, valid_after, time });
        }
        if let Some(valid_before) = self.valid_before.filter(|last| time > *last) {
            return Err(SignerError::TooLate { key, valid_before, time });
        }
        Ok(())
    }
}

/// The line, without its end.
impl fmt::Display for AllowedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: i64| from_ms(ms).strftime("%Y%m%d%H%M%SZ").to_string();
        let options = [
            ("namespaces", self.namespaces.clone()),
            ("valid-after", self.valid_after.map(time)),
            ("valid-before", self.valid_before.map(time)),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let options: Vec<String> =
            options.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        write!(f, "{} ", self.principals)?;
        if !options.is_empty() {
            write!(f, "{} ", options.join(","))?;
        }
        write!(f, "{}", self.key)?;
        if self.comment.is_empty() { Ok(()) } else { write!(f, " {}", self.comment) }
    }
}

/// The options in front of a key.
#[derive(Default)]
struct Options {
    namespaces: Option<String>,
    valid_after: Option<i64>,
    valid_before: Option<i64>,
    signs_certificates: bool,
}

/// Reads a line; none if it is to be skipped.
fn parse_line(line: &str) -> Result<Option<AllowedSigner>, String> {
    let line = line.trim_matches([' ', '\t', '\r']);
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (principals, rest) = split_word(line)?;
    let principals = match principals.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').ok_or("the principals have a wrong quote")?,
        None => principals,
    };
    let (word, after_word) = split_word(rest)?;
    let (options, key) = if is_key_type(word) { ("", rest) } else { (word, after_word) };
    let (key_type, after_type) = split_word(key)?;
    if is_key_type(key_type) && key_type != KEY_TYPE {
        return Ok(None);
    }
    let (base64, comment) = split_word(after_type)?;
    let key = format!("{key_type} {base64}").parse();
    let key = key.map_err(|error: SshSigError| error.to_string())?;
    let Options { namespaces, valid_after, valid_before, signs_certificates } =
        parse_options(options)?;
    let (principals, comment) = (principals.to_owned(), comment.to_owned());
    let signer = AllowedSigner { principals, namespaces, valid_after, valid_before, key, comment };
    Ok(Some(signer).filter(|_| !signs_certificates))
}

/// Whether a word is the type of a key, and not a list of options.
fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-"].iter().any(|start| word.starts_with(start))
}

/// The first word, which ends at a blank outside of quotes, and what follows it.
fn split_word(text: &str) -> Result<(&str, &str), String> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            ' ' | '\t' if !is_quoted => {
                let (word, rest) = text.split_at(index);
                return Ok((word, rest.trim_start_matches([' ', '\t'])));
            }
            '"' if !is_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    if is_quoted { Err("a quote is not closed".into()) } else { Ok((text, "")) }
}

/// Reads the options: flags, and values in quotes, separated by commas.
fn parse_options(text: &str) -> Result<Options, String> {
    let mut options = Options::default();
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(['=', ',']).unwrap_or(rest.len());
        let (name, after_name) = rest.split_at(length);
        let (value, after_option) = match after_name.strip_prefix('=') {
            Some(quoted) => {
                let (value, after_value) = quoted_value(quoted)
                    .ok_or_else(|| format!("the value of {name} must be in quotes"))?;
                (Some(value), after_value)
            }
            None => (None, after_name),
        };
        match (name.to_ascii_lowercase().as_str(), value) {
            ("cert-authority", None) => options.signs_certificates = true,
            ("namespaces", Some(value)) => set(name, &mut options.namespaces, value)?,
            ("valid-after", Some(value)) => {
                set(name, &mut options.valid_after, parse_time(name, &value)?)?;
            }
            ("valid-before", Some(value)) => {
                set(name, &mut options.valid_before, parse_time(name, &value)?)?;
            }
            _ => return Err(format!("{name:?} is not an option, or has no value in quotes")),
        }
        rest = match after_option.strip_prefix(',') {
            Some("") => return Err("an option is missing after the last comma".into()),
            Some(rest) => rest,
            None if after_option.is_empty() => "",
            None => return Err(format!("expected a comma after {name}")),
        };
    }
    match (options.valid_after, options.valid_before) {
        (Some(first), Some(last)) if last <= first => {
            Err("valid-before must be later than valid-after".into())
        }
        _ => Ok(options),
    }
}

fn set<T>(name: &str, option: &mut Option<T>, value: T) -> Result<(), String> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("duplicate option {name}")),
    }
}

/// The value in quotes at the start of a text, and what follows it. `\"` is a quote in the value.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut characters = text.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(index + 1..)?)),
            '\\' => match characters.next_if(|(_, next)| *next == '"') {
                Some((_, quote)) => value.push(quote),
                None => value.push('\\'),
            },
            other => value.push(other),
        }
    }
    None
}

/// Reads `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, each with or without `Z`.
fn parse_time(name: &str, text: &str) -> Result<i64, String> {
    let digits = text.strip_suffix('Z').or_else(|| text.strip_suffix("UTC")).unwrap_or(text);
    let is_time =
        [8, 12, 14].contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let time = if is_time { time_of_digits(digits) } else { None };
    time.ok_or_else(|| format!("{name} must be a time like 20260131235959Z, not {text:?}"))
}

fn time_of_digits(digits: &str) -> Option<i64> {
    let number = |from: usize| digits.get(from..from + 2).map_or(Ok(0), str::parse::<i8>).ok();
    let year = digits.get(..4)?.parse().ok()?;
    let (month, day) = (number(4)?, number(6)?);
    let (hour, minute, second) = (number(8)?, number(10)?, number(12)?);
    // The calendar has more days than timestamps.
    let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    let since_epoch: SignedDuration = time.duration_since(EPOCH);
    i64::try_from(since_epoch.as_millis()).ok()
}

/// Whether a text matches one of the patterns of a list, and none of those after `!`.
fn matches_list(patterns: &str, text: &str) -> bool {
    let mut is_match = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(excluded) if matches(excluded, text) => return false,
            Some(_) => {}
            None => is_match |= matches(pattern, text),
        }
    }
    is_match
}

/// Whether a text matches a pattern: `*` stands for any text, `?` for one byte.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut position) = (0, 0);
    // After the last `*`: where to continue if the rest does not match.
    let mut retry = None;
    while let Some(byte) = text.get(position) {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                retry = Some((at, position));
            }
            Some(expected) if *expected == b'?' || expected == byte => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((after_star, skipped)) = retry else { return false };
                at = after_star;
                position = skipped + 1;
                retry = Some((after_star, position));
            }
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests;
