//! The causes of errors.

use std::error::Error;

/// An error and its causes, the last of which is the root.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

/// The texts of an error and its causes, for errors whose own text does not have them.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot send")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_root_comes_last() {
        let error = Outer(std::io::Error::other("connection reset"));
        assert_eq!(with_causes(&error), "cannot send: connection reset");
        assert!(causes(&error).last().is_some_and(|root| root.is::<std::io::Error>()));
    }
}
