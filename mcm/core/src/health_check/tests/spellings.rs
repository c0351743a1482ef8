//! Both spellings lead to the same policy, and what is refused names the field and the fix.

use mcm_api::health_check::MachineHealthCheckSpec;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::normalize;

fn spec(fields: Value) -> MachineHealthCheckSpec {
    let mut object = json!({ "selector": { "matchLabels": { "name": "pool" } } });
    for (key, value) in fields.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// The settings that both spellings have.
#[derive(Clone, Debug)]
struct Settings {
    node: Vec<(String, String, u32)>,
    machine: Vec<(String, String, u32)>,
    startup: Option<u32>,
    most: Option<Result<u32, u32>>,
    range: Option<(u32, u32)>,
    template: Option<String>,
}

fn settings() -> impl Strategy<Value = Settings> {
    let conditions = |name: &'static str| prop::collection::vec((name, "True|False|Unknown", 0..100_000_u32), 0..5);
    let startup = prop_oneof![Just(0_u32), 30..100_000_u32];
    let most = prop_oneof![(0..1000_u32).prop_map(Ok), (0..=100_u32).prop_map(Err)];
    let range = (0..50_u32, 0..50_u32).prop_map(|(one, other)| (one.min(other), one.max(other)));
    (
        conditions("[A-Z][a-z]{2,8}"),
        conditions("X[a-z]{2,8}"),
        prop::option::of(startup),
        prop::option::of(most),
        prop::option::of(range),
        prop::option::of("[a-z]{1,8}"),
    )
        .prop_map(|(node, machine, startup, most, range, template)| Settings {
            node,
            machine,
            startup,
            most,
            range,
            template,
        })
}

fn conditions(list: &[(String, String, u32)], field: &str, timeout: fn(u32) -> Value) -> Value {
    let each = list.iter().map(|(type_, status, seconds)| {
        let mut condition = json!({ "type": type_, "status": status });
        condition[field] = timeout(*seconds);
        condition
    });
    each.collect()
}

fn amount(most: Result<u32, u32>) -> Value {
    match most {
        Ok(number) => json!(number),
        Err(percent) => json!(format!("{percent}%")),
    }
}

/// A setting in one spelling: whether it is flat is decided for each of them.
fn written(settings: &Settings, flat: [bool; 6]) -> MachineHealthCheckSpec {
    let mut object = json!({});
    let seconds = |seconds: u32| json!(format!("{seconds}s"));
    if flat[0] {
        object["unhealthyConditions"] = conditions(&settings.node, "timeout", seconds);
    } else {
        object["checks"]["unhealthyNodeConditions"] =
            conditions(&settings.node, "timeoutSeconds", |seconds| json!(seconds));
    }
    if flat[1] {
        object["unhealthyMachineConditions"] = conditions(&settings.machine, "timeout", seconds);
    } else {
        object["checks"]["unhealthyMachineConditions"] =
            conditions(&settings.machine, "timeoutSeconds", |seconds| json!(seconds));
    }
    match settings.startup {
        Some(startup) if flat[2] => object["nodeStartupTimeout"] = seconds(startup),
        Some(startup) => object["checks"]["nodeStartupTimeoutSeconds"] = json!(startup),
        None => {}
    }
    match settings.most {
        Some(most) if flat[3] => object["maxUnhealthy"] = amount(most),
        Some(most) => object["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"] = amount(most),
        None => {}
    }
    let range = settings
        .range
        .map(|(minimum, maximum)| format!("[{minimum}-{maximum}]"));
    match range {
        Some(range) if flat[4] => object["unhealthyRange"] = json!(range),
        Some(range) => object["remediation"]["triggerIf"]["unhealthyInRange"] = json!(range),
        None => {}
    }
    let template = settings.template.as_ref();
    let template =
        template.map(|name| json!({ "apiVersion": "example.com/v1", "kind": "RepairTemplate", "name": name }));
    match template {
        Some(template) if flat[5] => object["remediationTemplate"] = template,
        Some(template) => object["remediation"]["templateRef"] = template,
        None => {}
    }
    spec(object)
}

proptest! {
    #[test]
    fn every_mixture_of_spellings_gives_the_same_policy(settings in settings(), flat in any::<[bool; 6]>()) {
        let nested = normalize(&written(&settings, [false; 6]), "garden");
        prop_assert!(nested.is_ok(), "{nested:?}");
        prop_assert_eq!(&normalize(&written(&settings, [true; 6]), "garden"), &nested);
        prop_assert_eq!(&normalize(&written(&settings, flat), "garden"), &nested);
    }
}

fn template(namespace: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "RepairTemplate", "name": "repair", "namespace": namespace })
}

#[rstest]
#[case::empty_selector(json!({ "selector": {} }), "spec.selector: a selector without labels would take every machine of the namespace: name at least one label")]
#[case::range_that_begins_after_its_end(json!({ "unhealthyRange": "[3-2]" }), "spec.unhealthyRange: \"[3-2]\" begins after its end: write [2-3]")]
#[case::no_range(json!({ "unhealthyRange": "2-3" }), "spec.unhealthyRange: \"2-3\" is not a range: write for example [2-3]")]
#[case::range_with_a_sign(json!({ "unhealthyRange": "[+2-3]" }), "spec.unhealthyRange: \"[+2-3]\" is not a range: write for example [2-3]")]
#[case::more_than_all(json!({ "maxUnhealthy": "101%" }), "spec.maxUnhealthy: \"101%\" is neither a number of machines, as 3, nor a percentage from \"0%\" to \"100%\"")]
#[case::number_as_text(json!({ "maxUnhealthy": "40" }), "spec.maxUnhealthy: \"40\" is neither")]
#[case::no_number(json!({ "maxUnhealthy": "abcdef" }), "spec.maxUnhealthy: \"abcdef\" is neither")]
#[case::negative(json!({ "maxUnhealthy": -1 }), "spec.maxUnhealthy: -1 is neither")]
#[case::in_the_other_spelling(json!({ "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": "101%" } } }), "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: \"101%\" is neither")]
#[case::short_timeout(json!({ "unhealthyConditions": [{ "type": "Ready", "status": "False", "timeout": "500ms" }] }), "spec.unhealthyConditions[0].timeout: 500ms is shorter than a second: write 0s or at least 1s")]
#[case::fraction(json!({ "stormCooldown": "1500ms" }), "spec.stormCooldown: 1.5s is not a number of whole seconds: write 1s or 2s")]
#[case::empty_type(json!({ "unhealthyConditions": [{ "type": "", "status": "False", "timeout": "5m" }] }), "spec.unhealthyConditions[0].type: is empty")]
#[case::negative_seconds(json!({ "checks": { "unhealthyNodeConditions": [{ "type": "Ready", "status": "False", "timeoutSeconds": -1 }] } }), "spec.checks.unhealthyNodeConditions[0].timeoutSeconds: -1 is negative")]
#[case::short_startup(json!({ "nodeStartupTimeout": "29s" }), "spec.nodeStartupTimeout: a node does not join in less than 30 seconds")]
#[case::both_spellings(
    json!({ "nodeStartupTimeout": "5m", "checks": { "nodeStartupTimeoutSeconds": 300 } }),
    "spec.nodeStartupTimeout: spec.checks.nodeStartupTimeoutSeconds is another spelling of the same setting: remove one"
)]
#[case::own_condition(json!({ "unhealthyMachineConditions": [{ "type": "OwnerRemediated", "status": "False", "timeout": "5m" }] }), "spec.unhealthyMachineConditions[0].type: OwnerRemediated is a result of checks")]
#[case::no_phase(json!({ "unhealthyMachineConditions": [{ "type": "Phase=Broken", "status": "True", "timeout": "5m" }] }), "spec.unhealthyMachineConditions[0].type: \"Broken\" is not a phase: write one of Pending, Available, CrashLoopBackOff, Running, Unknown, Failed")]
#[case::phase_with_a_status(json!({ "unhealthyMachineConditions": [{ "type": "Phase=Unknown", "status": "False", "timeout": "5m" }] }), "spec.unhealthyMachineConditions[0].status: a phase is compared with status \"True\"")]
#[case::template_elsewhere(json!({ "remediationTemplate": template("other") }), "spec.remediationTemplate.namespace: \"other\" is not the namespace of the check: create the template in \"garden\"")]
#[case::no_template(json!({ "remediationTemplate": { "apiVersion": "example.com/v1", "kind": "Repair", "name": "repair" } }), "spec.remediationTemplate.kind: \"Repair\" does not end with Template")]
#[case::nothing_in_flight(json!({ "maxInFlight": 0 }), "spec.maxInFlight: 0 remediates nothing")]
#[case::no_share_in_flight(json!({ "maxInFlight": "0%" }), "spec.maxInFlight: 0 remediates nothing")]
#[case::same_order(
    json!({ "escalatingRemediations": [
        { "remediationTemplate": template(""), "order": 1, "timeout": "5m" },
        { "remediationTemplate": template(""), "order": 1, "timeout": "5m" },
    ] }),
    "spec.escalatingRemediations[1].order: 1 occurs twice"
)]
#[case::short_escalation(
    json!({ "escalatingRemediations": [{ "remediationTemplate": template(""), "order": 1, "timeout": "59s" }] }),
    "spec.escalatingRemediations[0].timeout: 59s gives no remediation a chance"
)]
#[case::template_and_templates(
    json!({
        "remediationTemplate": template(""),
        "escalatingRemediations": [{ "remediationTemplate": template(""), "order": 1, "timeout": "5m" }],
    }),
    "spec.remediationTemplate: excludes escalatingRemediations"
)]
fn what_cannot_be_used_is_named_with_its_fix(#[case] fields: Value, #[case] expected: &str) {
    let errors = normalize(&spec(fields), "garden").unwrap_err();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(texts.iter().any(|text| text.starts_with(expected)), "{texts:?}");
}

#[test]
fn templates_are_used_in_their_order_and_the_last_has_no_timeout() {
    let fields = json!({ "escalatingRemediations": [
        { "remediationTemplate": template("garden"), "order": 7, "timeout": "5m" },
        { "remediationTemplate": template(""), "order": 3, "timeout": "10m" },
    ] });
    let policy = normalize(&spec(fields), "garden").unwrap();
    let super::super::Remediation::External(steps) = policy.remediation else {
        panic!("no templates");
    };
    let steps: Vec<_> = steps
        .iter()
        .map(|step| (step.order, step.timeout.map(|timeout| timeout.as_secs())))
        .collect();
    assert_eq!(steps, [(3, Some(600)), (7, None)]);
}

/// An API server adds the default to a spec in the other spelling.
#[test]
fn the_default_of_the_startup_timeout_does_not_conflict_with_the_other_spelling() {
    let fields = json!({
        "nodeStartupTimeout": MachineHealthCheckSpec::STARTUP_TIMEOUT,
        "checks": { "nodeStartupTimeoutSeconds": 300 },
    });
    let policy = normalize(&spec(fields), "garden").unwrap();
    assert_eq!(policy.startup_timeout.map(|timeout| timeout.as_secs()), Some(300));
    let absent = normalize(&spec(json!({})), "garden").unwrap();
    let default = json!({ "nodeStartupTimeout": MachineHealthCheckSpec::STARTUP_TIMEOUT });
    assert_eq!(normalize(&spec(default), "garden").unwrap(), absent);
}
