//! What the annotations of a machine and of its Node ask for.
//!
//! The Node's value wins and is written to the Machine; that it came from the Node is remembered there, so that it goes
//! when the Node's goes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::keys;

use super::Dialect;
use crate::event::EventType;

const NOW: &str = "now";
const WHEN_FAILED: &str = "when-failed";
const REFUSED: &str = "false";
/// What upstream writes to a Machine that is preserved automatically.
pub(crate) const AUTOMATIC: &str = "auto-preserved";

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// Nothing.
    #[default]
    None,
    /// Nothing that can be understood: it neither starts nor ends anything.
    Ignored,
    /// The machine is to be kept at once.
    Now,
    /// The machine is to be kept when it fails.
    WhenFailed,
    /// The machine is not to be kept.
    Refused,
}

impl Request {
    fn of(text: &str) -> Option<Self> {
        match text {
            NOW => Some(Self::Now),
            WHEN_FAILED => Some(Self::WhenFailed),
            REFUSED => Some(Self::Refused),
            _ => None,
        }
    }

    /// The request for a preservation, if it is one.
    pub fn asked(self) -> Option<Asked> {
        match self {
            Self::Now => Some(Asked::Now),
            Self::WhenFailed => Some(Asked::WhenFailed),
            Self::None | Self::Ignored | Self::Refused => None,
        }
    }
}

/// A request for a preservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// At once.
    Now,
    /// On failure.
    WhenFailed,
}

impl Asked {
    /// The annotation's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => NOW,
            Self::WhenFailed => WHEN_FAILED,
        }
    }

    /// The request of that text.
    pub fn of(text: &str) -> Option<Self> {
        Request::of(text).and_then(Request::asked)
    }
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// On the Machine alone.
    #[default]
    Machine,
    /// On the Node.
    Node,
}

/// The request, and what has to be written for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// What is asked for.
    pub request: Request,
    /// Where that stands.
    pub origin: Origin,
    /// Whether the Node itself says so, and not only the Machine, to which it was written.
    pub on_node: bool,
    /// Whether the Machine carries upstream's word for an automatic preservation.
    pub automatic: bool,
    /// Annotations of the Machine that change; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
    /// What a person should be told when these are written: type, one word, text.
    pub events: Vec<(EventType, &'static str, String)>,
}

/// One object's annotation.
enum Given<'a> {
    Nothing,
    Meant(Request, &'a str),
    Meaningless(&'a str),
    Automatic,
}

/// What is asked for, by a machine and its Node, if there is one. `preserved`: the uid of the Node that the machine had when
/// it was preserved, empty if it had none; it counts where the Machine does not say which Node asked.
pub fn resolve(machine: &ObjectMeta, node: Option<&ObjectMeta>, preserved: Option<&str>, dialect: Dialect) -> Resolved {
    if dialect == Dialect::Off {
        let mut resolved = Resolved {
            request: Request::Refused,
            ..Resolved::default()
        };
        // It is no person's, and a set waits for what becomes of it.
        if matches!(given(machine), Given::Automatic) {
            resolved.put(machine, keys::PRESERVE_ANNOTATION, None);
        }
        return resolved;
    }
    let last = annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).filter(|value| !value.is_empty());
    let asker = annotation(machine, keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION).or(preserved);
    let uid = node.and_then(|node| node.uid.as_deref());
    let same_node = asker.is_none_or(|asker| uid.unwrap_or_default() == asker);
    let mut resolved = Resolved::default();
    let own = given(machine);
    resolved.automatic = matches!(own, Given::Automatic);
    match node.map(given) {
        Some(Given::Meant(request, value)) => {
            resolved.request = request;
            resolved.origin = Origin::Node;
            resolved.on_node = true;
            resolved.put(machine, keys::PRESERVE_ANNOTATION, Some(value));
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION, Some(value));
            resolved.put(machine, keys::PRESERVE_WHEN_FAILED_ANNOTATION, None);
            let old_word = node.is_some_and(|node| annotation(node, keys::PRESERVE_ANNOTATION).is_none());
            resolved.told_of_old_word(old_word && !resolved.annotations.is_empty(), "Node", value);
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION, uid);
        }
        Some(Given::Nothing | Given::Automatic) if last.is_some() && same_node => {
            resolved.put(machine, keys::PRESERVE_ANNOTATION, None);
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION, None);
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION, None);
        }
        given => {
            resolved.origin = if last.is_some() { Origin::Node } else { Origin::Machine };
            resolved.own(machine, &own);
            if let Some(Given::Meaningless(value)) = given {
                resolved.ignore(machine, "Node", value);
                return resolved;
            }
        }
    }
    if let (Given::Meaningless(value), Origin::Machine) = (&own, resolved.origin)
        && resolved.annotations.is_empty()
    {
        resolved.ignore(machine, "Machine", value);
    } else {
        resolved.put(machine, keys::IGNORED_PRESERVE_ANNOTATION, None);
    }
    resolved
}

impl Resolved {
    /// The Machine's own value stands.
    fn own(&mut self, machine: &ObjectMeta, own: &Given<'_>) {
        self.request = match own {
            Given::Meant(request, value) => {
                let old_word = annotation(machine, keys::PRESERVE_ANNOTATION).is_none();
                if old_word {
                    self.put(machine, keys::PRESERVE_ANNOTATION, Some(value));
                    self.told_of_old_word(true, "Machine", value);
                }
                self.put(machine, keys::PRESERVE_WHEN_FAILED_ANNOTATION, None);
                *request
            }
            Given::Meaningless(_) => Request::Ignored,
            Given::Nothing | Given::Automatic => Request::None,
        };
    }

    /// A value that means nothing is told of once.
    fn ignore(&mut self, machine: &ObjectMeta, kind: &str, value: &str) {
        let known = annotation(machine, keys::IGNORED_PRESERVE_ANNOTATION) == Some(value);
        self.put(machine, keys::IGNORED_PRESERVE_ANNOTATION, Some(value));
        if !known {
            let text = format!(
                "the annotation {} of the {kind} is {value:?}, which means nothing: write now, when-failed or false",
                keys::PRESERVE_ANNOTATION
            );
            self.events.push((EventType::Warning, "PreserveValueIgnored", text));
        }
    }

    fn told_of_old_word(&mut self, told: bool, kind: &str, value: &str) {
        if told {
            let text = format!(
                "the annotation {} of the {kind} is understood as {}={value}; write that instead",
                keys::PRESERVE_WHEN_FAILED_ANNOTATION,
                keys::PRESERVE_ANNOTATION
            );
            self.events.push((EventType::Normal, "PreserveAnnotationRenamed", text));
        }
    }

    fn put(&mut self, machine: &ObjectMeta, key: &str, value: Option<&str>) {
        if annotation(machine, key) != value {
            self.annotations.insert(key.to_owned(), value.map(str::to_owned));
        }
    }
}

fn given(metadata: &ObjectMeta) -> Given<'_> {
    if let Some(value) = annotation(metadata, keys::PRESERVE_ANNOTATION) {
        return match Request::of(value) {
            Some(request) => Given::Meant(request, value),
            None if value == AUTOMATIC => Given::Automatic,
            None => Given::Meaningless(value),
        };
    }
    match annotation(metadata, keys::PRESERVE_WHEN_FAILED_ANNOTATION) {
        Some("true") => Given::Meant(Request::WhenFailed, WHEN_FAILED),
        Some("false") => Given::Meant(Request::Refused, REFUSED),
        Some(value) => Given::Meaningless(value),
        None => Given::Nothing,
    }
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const KEYS: [(&str, &str); 5] = [
        ("preserve", keys::PRESERVE_ANNOTATION),
        ("v1", keys::PRESERVE_WHEN_FAILED_ANNOTATION),
        ("last", keys::LAST_APPLIED_PRESERVE_ANNOTATION),
        ("asker", keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION),
        ("ignored", keys::IGNORED_PRESERVE_ANNOTATION),
    ];

    /// `word=value` separated by blanks; `word=` is an empty value.
    fn metadata(text: &str) -> ObjectMeta {
        let each = text.split_whitespace().map(|pair| {
            let (word, value) = pair.split_once('=').unwrap();
            let key = KEYS.iter().find(|(known, _)| *known == word).unwrap().1;
            (key.to_owned(), value.to_owned())
        });
        ObjectMeta {
            annotations: Some(each.collect()),
            ..ObjectMeta::default()
        }
    }

    fn written(resolved: &Resolved) -> String {
        let word = |key: &String| KEYS.iter().find(|(_, known)| known == key).unwrap().0;
        let each = resolved
            .annotations
            .iter()
            .map(|(key, value)| format!("{}={}", word(key), value.as_deref().unwrap_or("-")));
        let mut words: Vec<String> = each.collect();
        words.sort();
        words.join(" ")
    }

    #[rstest]
    #[case::nothing("", Some(""), Request::None, "", 0)]
    #[case::machine("preserve=now", Some(""), Request::Now, "", 0)]
    #[case::machine_without_node("preserve=when-failed", None, Request::WhenFailed, "", 0)]
    #[case::node("", Some("preserve=now"), Request::Now, "last=now preserve=now", 0)]
    #[case::node_over_machine(
        "preserve=now",
        Some("preserve=false"),
        Request::Refused,
        "last=false preserve=false",
        0
    )]
    #[case::node_as_known("preserve=now last=now", Some("preserve=now"), Request::Now, "", 0)]
    #[case::node_removed("preserve=now last=now", Some(""), Request::None, "last=- preserve=-", 0)]
    #[case::node_gone("preserve=now last=now", None, Request::Now, "", 0)]
    #[case::node_empty("", Some("preserve="), Request::None, "ignored=", 1)]
    #[case::node_unknown("preserve=now last=now", Some("preserve=maybe"), Request::Now, "ignored=maybe", 1)]
    #[case::node_unknown_told("ignored=maybe", Some("preserve=maybe"), Request::None, "", 0)]
    #[case::node_unknown_no_more("ignored=maybe", Some(""), Request::None, "ignored=-", 0)]
    #[case::machine_unknown("preserve=maybe", Some(""), Request::Ignored, "ignored=maybe", 1)]
    #[case::machine_empty("preserve=", None, Request::Ignored, "ignored=", 1)]
    #[case::first_word("v1=true", Some(""), Request::WhenFailed, "preserve=when-failed v1=-", 1)]
    #[case::first_word_refuses("v1=false", None, Request::Refused, "preserve=false v1=-", 1)]
    #[case::first_word_of_node("", Some("v1=true"), Request::WhenFailed, "last=when-failed preserve=when-failed", 1)]
    #[case::first_word_known("preserve=when-failed last=when-failed", Some("v1=true"), Request::WhenFailed, "", 0)]
    #[case::upstreams_word("preserve=auto-preserved", Some(""), Request::None, "", 0)]
    fn the_node_wins_and_its_value_is_written_to_the_machine(
        #[case] machine: &str,
        #[case] node: Option<&str>,
        #[case] expected: Request,
        #[case] writes: &str,
        #[case] events: usize,
    ) {
        let (machine, node) = (metadata(machine), node.map(metadata));
        let resolved = resolve(&machine, node.as_ref(), None, Dialect::V2);
        assert_eq!(resolved.request, expected);
        assert_eq!(written(&resolved), writes);
        assert_eq!(resolved.events.len(), events);
    }

    /// The machine's annotations, the Node's, what the preservation knows of its Node, and what is asked for then and
    /// written. The Node's uid is `second`.
    #[rstest]
    #[case::asks("", "preserve=now", None, Request::Now, "asker=second last=now preserve=now")]
    #[case::asks_still("preserve=now last=now asker=second", "preserve=now", None, Request::Now, "")]
    #[case::asks_now(
        "preserve=now last=now asker=first",
        "preserve=now",
        None,
        Request::Now,
        "asker=second"
    )]
    #[case::written_by_none("preserve=now last=now", "preserve=now", None, Request::Now, "asker=second")]
    #[case::in_old_words(
        "preserve=now last=now",
        "v1=true",
        None,
        Request::WhenFailed,
        "asker=second last=when-failed preserve=when-failed"
    )]
    #[case::takes_back(
        "preserve=now last=now asker=second",
        "",
        None,
        Request::None,
        "asker=- last=- preserve=-"
    )]
    #[case::another_is_silent("preserve=now last=now asker=first", "", None, Request::Now, "")]
    #[case::another_means_nothing(
        "preserve=now last=now asker=first",
        "preserve=maybe",
        None,
        Request::Now,
        "ignored=maybe"
    )]
    #[case::another_was_kept("preserve=now last=now asker=first", "", Some("second"), Request::Now, "")]
    #[case::it_was_not_kept(
        "preserve=now last=now asker=second",
        "",
        Some("first"),
        Request::None,
        "asker=- last=- preserve=-"
    )]
    #[case::known_of_who_was_kept("preserve=now last=now", "", Some("first"), Request::Now, "")]
    #[case::kept_without_node("preserve=now last=now", "", Some(""), Request::Now, "")]
    #[case::kept_itself("preserve=now last=now", "", Some("second"), Request::None, "last=- preserve=-")]
    #[case::known_of_nobody("preserve=now last=now", "", None, Request::None, "last=- preserve=-")]
    fn a_request_is_taken_back_by_the_node_that_asked(
        #[case] machine: &str,
        #[case] node: &str,
        #[case] preserved: Option<&str>,
        #[case] expected: Request,
        #[case] writes: &str,
    ) {
        let node = ObjectMeta {
            uid: Some("second".to_owned()),
            ..metadata(node)
        };
        let resolved = resolve(&metadata(machine), Some(&node), preserved, Dialect::V2);
        assert_eq!((resolved.request, written(&resolved).as_str()), (expected, writes));
    }

    #[test]
    fn the_first_word_is_told_of_once_whichever_node_has_it() {
        let node = ObjectMeta {
            uid: Some("second".to_owned()),
            ..metadata("v1=true")
        };
        let machine = metadata("preserve=when-failed last=when-failed asker=first");
        let resolved = resolve(&machine, Some(&node), None, Dialect::V2);
        assert_eq!(
            (written(&resolved).as_str(), resolved.events.len()),
            ("asker=second", 0)
        );
    }

    #[test]
    fn nothing_is_asked_for_where_preservation_is_off() {
        let (machine, node) = (metadata("preserve=now v1=true"), metadata("preserve=now"));
        let resolved = resolve(&machine, Some(&node), None, Dialect::Off);
        assert_eq!(resolved.request, Request::Refused);
        assert!(resolved.annotations.is_empty() && resolved.events.is_empty());
    }
}
