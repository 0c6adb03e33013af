//! The real servers that the flows run against.

/// What `scripts/services env` prints, from the environment.
pub fn required(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: start the servers with `scripts/services start` and set what \
             `scripts/services env` prints, or run `scripts/test`"
        )
    })
}
