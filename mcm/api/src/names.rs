//! Distinct types for names and ids, so that one cannot be passed in place of another. They are never empty: an empty
//! string in an object or in a driver's response means that there is no name.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A name or id is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {0} is empty")]
pub struct EmptyName(&'static str);

macro_rules! names {
    ($($(#[$doc:meta])+ $name:ident = $what:literal;)+) => {$(
        $(#[$doc])+
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Returns `None` if the text is empty.
            pub fn new(text: impl Into<String>) -> Option<Self> {
                let text = text.into();
                (!text.is_empty()).then_some(Self(text))
            }

            /// The name as a string slice.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(EmptyName($what)))
            }
        }

        impl TryFrom<&str> for $name {
            type Error = EmptyName;

            fn try_from(text: &str) -> Result<Self, EmptyName> {
                Self::new(text).ok_or(EmptyName($what))
            }
        }

        impl TryFrom<String> for $name {
            type Error = EmptyName;

            fn try_from(text: String) -> Result<Self, EmptyName> {
                Self::new(text).ok_or(EmptyName($what))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )+};
}

names! {
    /// A cloud's id of a VM, as in `spec.providerID` of its Machine and its Node.
    ProviderId = "provider id";
    /// The name of a Node.
    NodeName = "node name";
    /// The name of a Machine.
    MachineName = "machine name";
}

/// The maximum length of a label value. Machines and Nodes name each other in labels, so it also limits their names.
pub const MAX_LABEL_VALUE: usize = 63;

/// Whether the text can be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    let is_end = |character: Option<char>| character.is_none_or(|character| character.is_ascii_alphanumeric());
    text.len() <= MAX_LABEL_VALUE
        && is_end(text.chars().next())
        && is_end(text.chars().last())
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
}

impl NodeName {
    /// Whether the machine of the Node can name it in its label `node`.
    pub fn is_label_value(&self) -> bool {
        is_label_value(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_name_must_fit_a_label() {
        let long = "n".repeat(63);
        for good in ["n1", "a.b-c_d", "N", &long] {
            assert!(NodeName::new(good).unwrap().is_label_value(), "{good}");
        }
        let too_long = "n".repeat(64);
        for bad in ["-n", "n.", "a b", "ä", "a/b", &too_long] {
            assert!(!NodeName::new(bad).unwrap().is_label_value(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_a_string_in_json_and_never_empty() {
        let name: NodeName = serde_json::from_str("\"n1\"").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"n1\"");
        let error = serde_json::from_str::<NodeName>("\"\"").unwrap_err();
        assert_eq!(error.to_string(), "the node name is empty");
        assert_eq!(ProviderId::new(""), None);
        assert!(MachineName::try_from("").is_err());
    }
}
