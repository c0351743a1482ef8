//! Groups of the Kubernetes community: a definition in one needs the annotation of its approval (KEP-2337).

use serde_json::Value;

use super::text;
use crate::status::FieldError;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const PROPOSAL: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The approval of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Approval<'a> {
    /// The group is not protected.
    NotNeeded,
    /// Approved at this address.
    Approved(&'a str),
    /// The annotation says that it is not approved.
    Bypassed(&'a str),
    /// There is no annotation.
    Missing,
    /// The annotation is neither an address nor a reason.
    Invalid(&'a str),
}

pub(super) fn approval(crd: &Value) -> Approval<'_> {
    let group = text(crd, "/spec/group");
    let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !is_protected {
        return Approval::NotNeeded;
    }
    let annotation = crd
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(ANNOTATION))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_address = annotation.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let letters = |next: char| next.is_ascii_alphanumeric() || "+-.".contains(next);
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(letters) && !host.is_empty()
    });
    match annotation {
        "" => Approval::Missing,
        reason if reason.starts_with("unapproved") => Approval::Bypassed(reason),
        address if is_address => Approval::Approved(address),
        other => Approval::Invalid(other),
    }
}

/// The error of a definition without approval.
pub(super) fn validate(crd: &Value) -> Option<FieldError> {
    let field = format!("metadata.annotations[{ANNOTATION}]");
    let demand = format!("protected groups must have approval annotation {ANNOTATION:?}");
    match approval(crd) {
        Approval::NotNeeded | Approval::Approved(_) | Approval::Bypassed(_) => None,
        Approval::Missing => Some(FieldError::required(field, format!("{demand}, {PROPOSAL}"))),
        Approval::Invalid(annotation) => {
            let why = format!("{demand} with either a URL or a reason starting with \"unapproved\", {PROPOSAL}");
            Some(FieldError::invalid(field, annotation, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("example.com", "", Approval::NotNeeded)]
    #[case("xk8s.io", "", Approval::NotNeeded)]
    #[case("a.x-k8s.io", "", Approval::NotNeeded)]
    #[case("foo.notkubernetes.io", "", Approval::NotNeeded)]
    #[case("k8s.io", "", Approval::Missing)]
    #[case("coordination.k8s.io", "", Approval::Missing)]
    #[case("kubernetes.io", "", Approval::Missing)]
    #[case("a.b.kubernetes.io", "", Approval::Missing)]
    #[case("a.k8s.io", "https://example.com/1", Approval::Approved("https://example.com/1"))]
    #[case("a.k8s.io", "unapproved, a test", Approval::Bypassed("unapproved, a test"))]
    #[case("a.k8s.io", "foo", Approval::Invalid("foo"))]
    #[case("a.k8s.io", "://", Approval::Invalid("://"))]
    #[case("a.k8s.io", "https://", Approval::Invalid("https://"))]
    fn protected_groups_need_an_approval(
        #[case] group: &str,
        #[case] annotation: &str,
        #[case] expected: Approval<'static>,
    ) {
        let crd = json!({ "metadata": { "annotations": { ANNOTATION: annotation } }, "spec": { "group": group } });
        assert_eq!(approval(&crd), expected);
        let is_error = matches!(expected, Approval::Missing | Approval::Invalid(_));
        assert_eq!(validate(&crd).is_some(), is_error);
    }
}
