use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use rstest::rstest;
use serde_json::{Value, json};

use super::conditions::wanted;
use super::*;

fn remains(resource: &str, finalizers: &[&str]) -> Remains {
    let mut remains = Remains::default();
    remains.add(
        resource,
        &json!({ "items": [{ "metadata": { "name": "a", "finalizers": finalizers } }] }),
    );
    remains
}

#[rstest]
#[case::nothing(Remains::default(), "False ContentRemoved", "False ContentHasNoFinalizers")]
#[case::content(remains("pods", &[]), "True SomeResourcesRemain", "False ContentHasNoFinalizers")]
#[case::held_content(remains("a.b", &["c/d"]), "True SomeResourcesRemain", "True SomeFinalizersRemain")]
fn conditions_report_remaining_content(#[case] remains: Remains, #[case] content: &str, #[case] finalizers: &str) {
    let conditions = wanted(&Namespace::default(), &remains, Timestamp::UNIX_EPOCH).unwrap();
    let status_and_reason = |kind: &str| {
        let condition = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        format!("{} {}", condition.status, condition.reason.as_deref().unwrap())
    };
    assert_eq!(status_and_reason("NamespaceContentRemaining"), content);
    assert_eq!(status_and_reason("NamespaceFinalizersRemaining"), finalizers);
}

#[test]
fn unchanged_conditions_are_not_written_again() {
    let mut namespace = Namespace::default();
    let remains = remains("pods", &[]);
    let conditions = wanted(&namespace, &remains, Timestamp::UNIX_EPOCH);
    namespace.status.get_or_insert_default().conditions = conditions;
    assert_eq!(wanted(&namespace, &remains, Timestamp::MAX), None);
}

#[test]
fn an_empty_list_adds_no_remaining_content() {
    let mut remains = Remains::default();
    remains.add("pods", &json!({ "items": [] }));
    remains.add("secrets", &Value::Null);
    assert!(remains.is_empty());
}
