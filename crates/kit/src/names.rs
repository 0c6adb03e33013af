//! Enums whose values have names.

/// An enum and the names of its values, each written once: [`ALL`](Self::ALL) values in their
/// order, [`name`](Self::name) and [`from_name`](Self::from_name).
///
/// ```text
/// kit::named! {
///     /// How an answer is written.
///     #[derive(Hash)]
///     pub enum Form {
///         Text = "text",
///         Json = "json",
///     }
/// }
/// assert_eq!(Form::ALL.map(Form::name), ["text", "json"]);
/// assert_eq!(Form::from_name("json"), Some(Form::Json));
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$outer:meta])*
        $vis:vis enum $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$inner])* $variant,)+
        }

        #[allow(dead_code, reason = "a value is missing from the list, or is not read back")]
        impl $name {
            /// Every value, in the order of the declaration.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The value with that [`name`](Self::name).
            $vis fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    crate::named! {
        /// How an answer is written.
        #[derive(Hash)]
        pub enum Form {
            Text = "text",
            Json = "json",
        }
    }

    #[test]
    fn values_have_their_names() {
        assert_eq!(Form::ALL.map(Form::name), ["text", "json"]);
        assert_eq!(Form::from_name("json"), Some(Form::Json));
        assert_eq!(Form::from_name("yaml"), None);
    }
}
