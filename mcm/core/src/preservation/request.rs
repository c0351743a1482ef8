//! Requests for preservation in the annotations of a machine and of its Node.
//!
//! The Node's value takes precedence and is copied to the Machine. Another annotation of the Machine records that the
//! value is a copy, so that it is removed together with the Node's.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::keys;

use super::Dialect;
use crate::event::EventType;

const NOW: &str = "now";
const WHEN_FAILED: &str = "when-failed";
const REFUSED: &str = "false";
/// The annotation value with which upstream marks an automatic preservation.
pub(crate) const AUTOMATIC: &str = "auto-preserved";

/// A request in an annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// No request.
    #[default]
    None,
    /// An unknown value: it neither starts nor ends a preservation.
    Ignored,
    /// Preserve the machine now.
    Now,
    /// Preserve the machine when it fails.
    WhenFailed,
    /// Do not preserve the machine.
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
    pub fn preservation(self) -> Option<PreservationRequest> {
        match self {
            Self::Now => Some(PreservationRequest::Now),
            Self::WhenFailed => Some(PreservationRequest::WhenFailed),
            Self::None | Self::Ignored | Self::Refused => None,
        }
    }
}

/// A request for a preservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreservationRequest {
    /// At once.
    Now,
    /// On failure.
    WhenFailed,
}

impl PreservationRequest {
    /// The annotation's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => NOW,
            Self::WhenFailed => WHEN_FAILED,
        }
    }

    /// The request for a preservation with that annotation value.
    pub fn of(text: &str) -> Option<Self> {
        Request::of(text).and_then(Request::preservation)
    }
}

/// The object that has a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Only the Machine.
    #[default]
    Machine,
    /// The Node.
    Node,
}

/// The request, and the writes that it needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// The request.
    pub request: Request,
    /// The object that has it.
    pub origin: Origin,
    /// Whether the Node has the request now, not only the copy on the Machine.
    pub on_node: bool,
    /// Whether the Machine has upstream's mark of an automatic preservation.
    pub automatic: bool,
    /// Annotations of the Machine that change; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
    /// The events that are recorded with these changes: type, reason, message.
    pub events: Vec<(EventType, &'static str, String)>,
}

/// The annotation of one object.
enum AnnotationValue<'a> {
    Nothing,
    Valid(Request, &'a str),
    Unknown(&'a str),
    Automatic,
}

/// The request of a machine and its Node, if there is one. `preserved` is the uid of the machine's Node at the start of
/// its preservation, empty if it had none; it is used if the Machine does not record which Node had the request.
pub fn resolve(machine: &ObjectMeta, node: Option<&ObjectMeta>, preserved: Option<&str>, dialect: Dialect) -> Resolved {
    if dialect == Dialect::Off {
        let mut resolved = Resolved {
            request: Request::Refused,
            ..Resolved::default()
        };
        // The mark is not a user's request, and the set waits until it is removed.
        if matches!(given(machine), AnnotationValue::Automatic) {
            resolved.put(machine, keys::PRESERVE_ANNOTATION, None);
        }
        return resolved;
    }
    let last = annotation(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION).filter(|value| !value.is_empty());
    let requesting_uid = annotation(machine, keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION).or(preserved);
    let uid = node.and_then(|node| node.uid.as_deref());
    let same_node = requesting_uid.is_none_or(|requesting_uid| uid.unwrap_or_default() == requesting_uid);
    let mut resolved = Resolved::default();
    let own = given(machine);
    resolved.automatic = matches!(own, AnnotationValue::Automatic);
    match node.map(given) {
        Some(AnnotationValue::Valid(request, value)) => {
            resolved.request = request;
            resolved.origin = Origin::Node;
            resolved.on_node = true;
            resolved.put(machine, keys::PRESERVE_ANNOTATION, Some(value));
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION, Some(value));
            resolved.put(machine, keys::PRESERVE_WHEN_FAILED_ANNOTATION, None);
            let deprecated = node.is_some_and(|node| annotation(node, keys::PRESERVE_ANNOTATION).is_none());
            resolved.report_deprecated(deprecated && !resolved.annotations.is_empty(), "Node", value);
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION, uid);
        }
        Some(AnnotationValue::Nothing | AnnotationValue::Automatic) if last.is_some() && same_node => {
            resolved.put(machine, keys::PRESERVE_ANNOTATION, None);
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_ANNOTATION, None);
            resolved.put(machine, keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION, None);
        }
        given => {
            resolved.origin = if last.is_some() { Origin::Node } else { Origin::Machine };
            resolved.own(machine, &own);
            if let Some(AnnotationValue::Unknown(value)) = given {
                resolved.ignore(machine, "Node", value);
                return resolved;
            }
        }
    }
    if let (AnnotationValue::Unknown(value), Origin::Machine) = (&own, resolved.origin)
        && resolved.annotations.is_empty()
    {
        resolved.ignore(machine, "Machine", value);
    } else {
        resolved.put(machine, keys::IGNORED_PRESERVE_ANNOTATION, None);
    }
    resolved
}

impl Resolved {
    /// Uses the Machine's own value.
    fn own(&mut self, machine: &ObjectMeta, own: &AnnotationValue<'_>) {
        self.request = match own {
            AnnotationValue::Valid(request, value) => {
                let deprecated = annotation(machine, keys::PRESERVE_ANNOTATION).is_none();
                if deprecated {
                    self.put(machine, keys::PRESERVE_ANNOTATION, Some(value));
                    self.report_deprecated(true, "Machine", value);
                }
                self.put(machine, keys::PRESERVE_WHEN_FAILED_ANNOTATION, None);
                *request
            }
            AnnotationValue::Unknown(_) => Request::Ignored,
            AnnotationValue::Nothing | AnnotationValue::Automatic => Request::None,
        };
    }

    /// Reports an unknown value once.
    fn ignore(&mut self, machine: &ObjectMeta, kind: &str, value: &str) {
        let known = annotation(machine, keys::IGNORED_PRESERVE_ANNOTATION) == Some(value);
        self.put(machine, keys::IGNORED_PRESERVE_ANNOTATION, Some(value));
        if !known {
            let text = format!(
                "the annotation {} of the {kind} is {value:?}, which is unknown: write now, when-failed or false",
                keys::PRESERVE_ANNOTATION
            );
            self.events.push((EventType::Warning, "PreserveValueIgnored", text));
        }
    }

    fn report_deprecated(&mut self, report: bool, kind: &str, value: &str) {
        if report {
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

fn given(metadata: &ObjectMeta) -> AnnotationValue<'_> {
    if let Some(value) = annotation(metadata, keys::PRESERVE_ANNOTATION) {
        return match Request::of(value) {
            Some(request) => AnnotationValue::Valid(request, value),
            None if value == AUTOMATIC => AnnotationValue::Automatic,
            None => AnnotationValue::Unknown(value),
        };
    }
    match annotation(metadata, keys::PRESERVE_WHEN_FAILED_ANNOTATION) {
        Some("true") => AnnotationValue::Valid(Request::WhenFailed, WHEN_FAILED),
        Some("false") => AnnotationValue::Valid(Request::Refused, REFUSED),
        Some(value) => AnnotationValue::Unknown(value),
        None => AnnotationValue::Nothing,
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

    /// Annotations as `name=value`, separated by blanks; `name=` is an empty value.
    fn metadata(text: &str) -> ObjectMeta {
        let each = text.split_whitespace().map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            let key = KEYS.iter().find(|(known, _)| *known == name).unwrap().1;
            (key.to_owned(), value.to_owned())
        });
        ObjectMeta {
            annotations: Some(each.collect()),
            ..ObjectMeta::default()
        }
    }

    fn written(resolved: &Resolved) -> String {
        let name = |key: &String| KEYS.iter().find(|(_, known)| known == key).unwrap().0;
        let each = resolved
            .annotations
            .iter()
            .map(|(key, value)| format!("{}={}", name(key), value.as_deref().unwrap_or("-")));
        let mut names: Vec<String> = each.collect();
        names.sort();
        names.join(" ")
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
    #[case::node_unknown_reported("ignored=maybe", Some("preserve=maybe"), Request::None, "", 0)]
    #[case::node_unknown_no_more("ignored=maybe", Some(""), Request::None, "ignored=-", 0)]
    #[case::machine_unknown("preserve=maybe", Some(""), Request::Ignored, "ignored=maybe", 1)]
    #[case::machine_empty("preserve=", None, Request::Ignored, "ignored=", 1)]
    #[case::deprecated("v1=true", Some(""), Request::WhenFailed, "preserve=when-failed v1=-", 1)]
    #[case::deprecated_refusal("v1=false", None, Request::Refused, "preserve=false v1=-", 1)]
    #[case::deprecated_on_node("", Some("v1=true"), Request::WhenFailed, "last=when-failed preserve=when-failed", 1)]
    #[case::deprecated_on_node_known(
        "preserve=when-failed last=when-failed",
        Some("v1=true"),
        Request::WhenFailed,
        "",
        0
    )]
    #[case::upstream_mark("preserve=auto-preserved", Some(""), Request::None, "", 0)]
    fn the_node_takes_precedence_and_its_value_is_copied_to_the_machine(
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

    /// Arguments: the machine's annotations, the Node's, the Node uid in the preservation's record, the expected
    /// request and writes. The Node's uid is `second`.
    #[rstest]
    #[case::new_request("", "preserve=now", None, Request::Now, "asker=second last=now preserve=now")]
    #[case::same_request("preserve=now last=now asker=second", "preserve=now", None, Request::Now, "")]
    #[case::request_moved_from_another_node(
        "preserve=now last=now asker=first",
        "preserve=now",
        None,
        Request::Now,
        "asker=second"
    )]
    #[case::request_without_a_recorded_node(
        "preserve=now last=now",
        "preserve=now",
        None,
        Request::Now,
        "asker=second"
    )]
    #[case::deprecated_annotation(
        "preserve=now last=now",
        "v1=true",
        None,
        Request::WhenFailed,
        "asker=second last=when-failed preserve=when-failed"
    )]
    #[case::withdrawn(
        "preserve=now last=now asker=second",
        "",
        None,
        Request::None,
        "asker=- last=- preserve=-"
    )]
    #[case::another_node_without_request("preserve=now last=now asker=first", "", None, Request::Now, "")]
    #[case::another_node_with_an_unknown_value(
        "preserve=now last=now asker=first",
        "preserve=maybe",
        None,
        Request::Now,
        "ignored=maybe"
    )]
    #[case::requested_by_another_than_the_preserved_node(
        "preserve=now last=now asker=first",
        "",
        Some("second"),
        Request::Now,
        ""
    )]
    #[case::withdrawn_by_another_than_the_preserved_node(
        "preserve=now last=now asker=second",
        "",
        Some("first"),
        Request::None,
        "asker=- last=- preserve=-"
    )]
    #[case::another_node_was_preserved("preserve=now last=now", "", Some("first"), Request::Now, "")]
    #[case::preserved_without_node("preserve=now last=now", "", Some(""), Request::Now, "")]
    #[case::withdrawn_by_the_preserved_node(
        "preserve=now last=now",
        "",
        Some("second"),
        Request::None,
        "last=- preserve=-"
    )]
    #[case::withdrawn_without_a_recorded_node("preserve=now last=now", "", None, Request::None, "last=- preserve=-")]
    fn only_the_requesting_node_withdraws_a_request(
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
    fn a_deprecated_annotation_is_reported_once_for_all_nodes() {
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
    fn the_dialect_off_refuses_all_requests() {
        let (machine, node) = (metadata("preserve=now v1=true"), metadata("preserve=now"));
        let resolved = resolve(&machine, Some(&node), None, Dialect::Off);
        assert_eq!(resolved.request, Request::Refused);
        assert!(resolved.annotations.is_empty() && resolved.events.is_empty());
    }
}
