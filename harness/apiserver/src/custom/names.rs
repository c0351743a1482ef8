//! The names of definitions: within a group, two definitions cannot use the same ones. As upstream's naming controller.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{items, text, texts};

/// The names that definitions of a group use.
#[derive(Clone, Debug, Default)]
pub struct TakenNames {
    /// Plurals, singulars and short names.
    resources: BTreeSet<String>,
    /// Kinds and list kinds.
    kinds: BTreeSet<String>,
}

/// Why names of a definition are not accepted: reason and message of a condition.
pub(super) struct Conflict {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl TakenNames {
    /// Adds the accepted names of a definition.
    pub fn add(&mut self, crd: &Value) {
        let name = |field: &str| text(crd, &format!("/status/acceptedNames/{field}")).to_owned();
        let short = texts(crd, "/status/acceptedNames/shortNames");
        self.resources
            .extend(short.into_iter().chain([name("plural"), name("singular")]));
        self.kinds.extend([name("kind"), name("listKind")]);
    }

    /// The accepted names of a definition: those that it asks for, except those of others, for which it keeps the ones
    /// that it had. The conflict is that of the last such name.
    pub(super) fn accept(&self, crd: &Value) -> (Value, Option<Conflict>) {
        let mut accepted = Map::new();
        let mut conflict = None;
        for (field, reason, taken) in [
            ("plural", "PluralConflict", &self.resources),
            ("singular", "SingularConflict", &self.resources),
            ("shortNames", "ShortNamesConflict", &self.resources),
            ("kind", "KindConflict", &self.kinds),
            ("listKind", "ListKindConflict", &self.kinds),
        ] {
            let (wanted, had) = (format!("/spec/names/{field}"), format!("/status/acceptedNames/{field}"));
            let of = |pointer: &str| match field {
                "shortNames" => texts(crd, pointer),
                _ => vec![text(crd, pointer).to_owned()],
            };
            let before = of(&had);
            let used = |name: &String| !before.contains(name) && taken.contains(name);
            let messages: Vec<String> = of(&wanted)
                .into_iter()
                .filter(used)
                .map(|name| format!("{name:?} is already in use"))
                .collect();
            let source = match messages.as_slice() {
                [] => &wanted,
                _ => &had,
            };
            match crd.pointer(source) {
                Some(value) if !value.as_array().is_some_and(Vec::is_empty) => {
                    accepted.insert(field.to_owned(), value.clone());
                }
                // These two are never absent.
                _ if ["plural", "kind"].contains(&field) => {
                    accepted.insert(field.to_owned(), json!(""));
                }
                _ => {}
            }
            if !messages.is_empty() {
                let message = match messages.as_slice() {
                    [one] => one.clone(),
                    several => format!("[{}]", several.join(", ")),
                };
                conflict = Some(Conflict { reason, message });
            }
        }
        if !items(crd, "/spec/names/categories").is_empty() {
            let categories = crd.pointer("/spec/names/categories").cloned().unwrap_or_default();
            accepted.insert("categories".to_owned(), categories);
        }
        (accepted.into(), conflict)
    }
}
