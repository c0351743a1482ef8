//! Normalizes a spec in either spelling to a [`Policy`].
//!
//! The rules of the definition refuse the same errors at admission. They are checked here too: an object may be older than
//! the definition, and an API server may not evaluate them.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mcm_api::health_check::{MachineHealthCheckSpec, TemplateReference, UnhealthyCondition, UnhealthyConditionSeconds};
use mcm_api::{GoDuration, Phase, keys};

use super::policy::{Amount, Escalation, Limit, MachineRule, NodeRule, Policy, Remediation};
use super::problem::PolicyError;
use crate::selector;

/// The startup timeout of a spec without one, as in Cluster API.
const STARTUP_TIMEOUT: Duration = Duration::from_mins(10);
/// The shortest startup timeout besides zero, as in Cluster API.
const SHORTEST_STARTUP: Duration = Duration::from_secs(30);
/// The shortest timeout of a template that others follow.
const SHORTEST_ESCALATION: Duration = Duration::from_mins(1);
/// The start of the type of a rule about a phase.
const PHASE: &str = "Phase=";

/// The policy of a check in that namespace.
///
/// # Errors
/// All fields that cannot be used, each with the fix.
pub fn normalize(spec: &MachineHealthCheckSpec, namespace: &str) -> Result<Policy, Vec<PolicyError>> {
    let mut problems = Problems::default();
    let selector = spec.selector.clone().unwrap_or_default();
    if let Err((field, problem)) = selector::check(&selector) {
        problems.add(format!("spec.selector{field}"), problem);
    }
    let node_rules = node_rules(spec, &mut problems);
    let machine_rules = machine_rules(spec, &mut problems);
    let startup_timeout = startup_timeout(spec, &mut problems);
    let limit = limit(spec, &mut problems);
    let remediation = remediation(spec, namespace, &mut problems);
    let max_in_flight = spec
        .max_in_flight
        .as_ref()
        .and_then(|value| problems.amount("spec.maxInFlight", value));
    if max_in_flight.is_some_and(|amount| amount.rounded_up(usize::MAX) == 0) {
        problems.add(
            "spec.maxInFlight",
            "0 remediates nothing: write 1 or more, or pause the check",
        );
    }
    let storm_cooldown = problems.timeout("spec.stormCooldown", spec.storm_cooldown.unwrap_or_default());
    let healthy_delay = problems.timeout("spec.healthyDelay", spec.healthy_delay.unwrap_or_default());
    problems.or(Policy {
        selector,
        node_rules,
        machine_rules,
        startup_timeout,
        limit,
        remediation,
        max_in_flight,
        storm_cooldown,
        healthy_delay,
    })
}

/// The problems found so far.
#[derive(Default)]
struct Problems(Vec<PolicyError>);

impl Problems {
    fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(PolicyError::new(field, problem));
    }

    fn or(self, policy: Policy) -> Result<Policy, Vec<PolicyError>> {
        if self.0.is_empty() { Ok(policy) } else { Err(self.0) }
    }

    /// Refuses a setting that is written in both spellings.
    fn one_spelling(&mut self, flat: (&str, bool), nested: (&str, bool)) {
        if flat.1 && nested.1 {
            let problem = format!("spec.{} is another spelling of the same setting: remove one", nested.0);
            self.add(format!("spec.{}", flat.0), problem);
        }
    }

    /// A number of whole seconds, as times of conditions are.
    fn timeout(&mut self, field: &str, timeout: GoDuration) -> Duration {
        if timeout.0 > Duration::ZERO && timeout.0 < Duration::from_secs(1) && !defect!(ShortTimeoutBecomesZero) {
            self.add(
                field,
                format!("{timeout} is shorter than a second: write 0s or at least 1s"),
            );
        } else if timeout.0.subsec_nanos() != 0 && timeout.0 >= Duration::from_secs(1) {
            let whole = timeout.0.as_secs();
            self.add(
                field,
                format!(
                    "{timeout} is not a number of whole seconds: write {whole}s or {}s",
                    whole + 1
                ),
            );
        }
        Duration::from_secs(timeout.0.as_secs())
    }

    fn amount(&mut self, field: &str, value: &IntOrString) -> Option<Amount> {
        let amount = match value {
            IntOrString::Int(number) => u32::try_from(*number).ok().map(Amount::Count),
            IntOrString::String(text) => percentage(text).map(Amount::Percent),
        };
        if amount.is_none() && defect!(BadNumberMeansAll) {
            return Some(Amount::Percent(100));
        }
        if amount.is_none() {
            let written = match value {
                IntOrString::Int(number) => number.to_string(),
                IntOrString::String(text) => format!("{text:?}"),
            };
            let problem =
                format!("{written} is neither a number of machines, as 3, nor a percentage from \"0%\" to \"100%\"");
            self.add(field, problem);
        }
        amount
    }
}

/// `40%` as 40, at most 100.
fn percentage(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|percent| plain && *percent <= 100)
}

/// The condition of one spelling, with its field.
struct Written {
    field: String,
    type_: String,
    status: String,
    timeout: Duration,
}

fn flat(field: &str, conditions: &[UnhealthyCondition], problems: &mut Problems) -> Vec<Written> {
    let each = conditions.iter().enumerate();
    each.map(|(index, condition)| {
        let field = format!("spec.{field}[{index}]");
        Written {
            timeout: problems.timeout(&format!("{field}.timeout"), condition.timeout),
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            field,
        }
    })
    .collect()
}

fn nested(field: &str, conditions: &[UnhealthyConditionSeconds], problems: &mut Problems) -> Vec<Written> {
    let each = conditions.iter().enumerate();
    each.map(|(index, condition)| {
        let field = format!("spec.checks.{field}[{index}]");
        Written {
            timeout: seconds(&format!("{field}.timeoutSeconds"), condition.timeout_seconds, problems),
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            field,
        }
    })
    .collect()
}

fn seconds(field: &str, seconds: i32, problems: &mut Problems) -> Duration {
    let Ok(seconds) = u64::try_from(seconds) else {
        problems.add(field, format!("{seconds} is negative: write 0 or more seconds"));
        return Duration::ZERO;
    };
    Duration::from_secs(seconds)
}

fn node_rules(spec: &MachineHealthCheckSpec, problems: &mut Problems) -> Vec<NodeRule> {
    let checks = spec.checks.clone().unwrap_or_default();
    problems.one_spelling(
        ("unhealthyConditions", !spec.unhealthy_conditions.is_empty()),
        (
            "checks.unhealthyNodeConditions",
            !checks.unhealthy_node_conditions.is_empty(),
        ),
    );
    let mut written = flat("unhealthyConditions", &spec.unhealthy_conditions, problems);
    written.extend(nested(
        "unhealthyNodeConditions",
        &checks.unhealthy_node_conditions,
        problems,
    ));
    written.into_iter().map(|written| complete(written, problems)).collect()
}

/// A rule, after a check that its texts are not empty.
fn complete(written: Written, problems: &mut Problems) -> NodeRule {
    for (name, text) in [("type", &written.type_), ("status", &written.status)] {
        if text.is_empty() {
            problems.add(
                format!("{}.{name}", written.field),
                "is empty: name a condition and its unhealthy status",
            );
        }
    }
    NodeRule {
        type_: written.type_,
        status: written.status,
        timeout: written.timeout,
    }
}

fn machine_rules(spec: &MachineHealthCheckSpec, problems: &mut Problems) -> Vec<MachineRule> {
    let checks = spec.checks.clone().unwrap_or_default();
    problems.one_spelling(
        (
            "unhealthyMachineConditions",
            !spec.unhealthy_machine_conditions.is_empty(),
        ),
        (
            "checks.unhealthyMachineConditions",
            !checks.unhealthy_machine_conditions.is_empty(),
        ),
    );
    let (name, conditions) = ("unhealthyMachineConditions", &spec.unhealthy_machine_conditions);
    let mut written = flat(name, conditions, problems);
    written.extend(nested(name, &checks.unhealthy_machine_conditions, problems));
    let rules = written.into_iter();
    rules.filter_map(|written| machine_rule(written, problems)).collect()
}

fn machine_rule(written: Written, problems: &mut Problems) -> Option<MachineRule> {
    let field = format!("{}.type", written.field);
    if let Some(phase) = written.type_.strip_prefix(PHASE) {
        let known = Phase::from(phase);
        let is_phase = !matches!(known, Phase::Other(_)) && known.base() == &known;
        if !is_phase || known == Phase::Terminating {
            let known = Phase::TEXTS
                .iter()
                .filter(|text| !text.contains(':') && **text != Phase::Terminating.as_str());
            let known: Vec<&str> = known.copied().collect();
            problems.add(
                field,
                format!("{phase:?} is not a phase: write one of {}", known.join(", ")),
            );
            return None;
        }
        if written.status != "True" {
            problems.add(
                format!("{}.status", written.field),
                "a phase is compared with status \"True\"",
            );
        }
        return Some(MachineRule::Phase {
            phase: known,
            timeout: written.timeout,
        });
    }
    let type_ = written.type_.as_str();
    if ["Ready", "Available"].contains(&type_) || keys::RESERVED_CONDITIONS.contains(&type_) {
        let problem = format!("{type_} is a result of checks: use unhealthyConditions for conditions of Nodes");
        problems.add(field, problem);
    }
    Some(MachineRule::Condition(complete(written, problems)))
}

fn startup_timeout(spec: &MachineHealthCheckSpec, problems: &mut Problems) -> Option<Duration> {
    let nested = spec
        .checks
        .as_ref()
        .and_then(|checks| checks.node_startup_timeout_seconds);
    // An API server adds the default to a spec in the other spelling.
    let flat = spec
        .node_startup_timeout
        .filter(|timeout| nested.is_none() || timeout.0 != STARTUP_TIMEOUT);
    problems.one_spelling(
        ("nodeStartupTimeout", flat.is_some()),
        ("checks.nodeStartupTimeoutSeconds", nested.is_some()),
    );
    let (field, timeout) = match (flat, nested) {
        (Some(timeout), _) => ("spec.nodeStartupTimeout", timeout.0),
        (None, Some(given)) => {
            let field = "spec.checks.nodeStartupTimeoutSeconds";
            (field, seconds(field, given, problems))
        }
        (None, None) => return Some(STARTUP_TIMEOUT),
    };
    if timeout.is_zero() {
        return None;
    }
    if timeout < SHORTEST_STARTUP {
        let problem = "a node does not join in less than 30 seconds: write 30s or more, or 0 for no limit";
        problems.add(field, problem);
    }
    Some(timeout)
}

fn limit(spec: &MachineHealthCheckSpec, problems: &mut Problems) -> Limit {
    let trigger = spec.remediation.as_ref().and_then(|block| block.trigger_if.clone());
    let trigger = trigger.unwrap_or_default();
    let most = "remediation.triggerIf.unhealthyLessThanOrEqualTo";
    let within = "remediation.triggerIf.unhealthyInRange";
    problems.one_spelling(
        ("maxUnhealthy", spec.max_unhealthy.is_some()),
        (most, trigger.unhealthy_less_than_or_equal_to.is_some()),
    );
    problems.one_spelling(
        ("unhealthyRange", spec.unhealthy_range.is_some()),
        (within, trigger.unhealthy_in_range.is_some()),
    );
    let pick = |flat: &str, is_flat: bool, nested: &str| format!("spec.{}", if is_flat { flat } else { nested });
    let field = pick("maxUnhealthy", spec.max_unhealthy.is_some(), most);
    let amount = spec.max_unhealthy.as_ref();
    let amount = amount.or(trigger.unhealthy_less_than_or_equal_to.as_ref());
    let at_most = amount.map(|value| problems.amount(&field, value));
    let field = pick("unhealthyRange", spec.unhealthy_range.is_some(), within);
    let range = spec.unhealthy_range.as_ref().or(trigger.unhealthy_in_range.as_ref());
    let range = range.map(|text| range_of(&field, text, problems));
    match (range, at_most) {
        (Some(range), _) => range.unwrap_or(Limit::None),
        (None, Some(amount)) => amount.map_or(Limit::None, Limit::AtMost),
        (None, None) => Limit::None,
    }
}

fn range_of(field: &str, text: &str, problems: &mut Problems) -> Option<Limit> {
    let numbers = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let digits = |text: &str| -> Option<u32> {
        let plain = !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit());
        text.parse().ok().filter(|_| plain)
    };
    let ends = numbers.and_then(|numbers| numbers.split_once('-'));
    let ends = ends.and_then(|(minimum, maximum)| Some((digits(minimum)?, digits(maximum)?)));
    let Some((minimum, maximum)) = ends else {
        problems.add(field, format!("{text:?} is not a range: write for example [2-3]"));
        return None;
    };
    if minimum > maximum {
        let problem = format!("{text:?} begins after its end: write [{maximum}-{minimum}]");
        problems.add(field, problem);
        return None;
    }
    Some(Limit::Range { minimum, maximum })
}

fn remediation(spec: &MachineHealthCheckSpec, namespace: &str, problems: &mut Problems) -> Remediation {
    let nested = spec.remediation.as_ref().and_then(|block| block.template_ref.as_ref());
    let field = "remediation.templateRef";
    problems.one_spelling(
        ("remediationTemplate", spec.remediation_template.is_some()),
        (field, nested.is_some()),
    );
    let single = match &spec.remediation_template {
        Some(flat) => Some(("spec.remediationTemplate".to_owned(), flat)),
        None => nested.map(|template| (format!("spec.{field}"), template)),
    };
    if let Some((field, _)) = &single
        && !spec.escalating_remediations.is_empty()
    {
        let problem = "excludes escalatingRemediations: move it there, with the lowest order";
        problems.add(field, problem);
    }
    if let Some((field, template)) = single {
        let template = checked_template(&field, template, namespace, problems);
        return Remediation::External(vec![Escalation {
            template,
            order: 0,
            timeout: None,
        }]);
    }
    let mut steps = escalations(spec, namespace, problems);
    if steps.is_empty() {
        return Remediation::Owner;
    }
    steps.sort_by_key(|step| step.order);
    if let Some(last) = steps.last_mut() {
        last.timeout = None;
    }
    Remediation::External(steps)
}

fn escalations(spec: &MachineHealthCheckSpec, namespace: &str, problems: &mut Problems) -> Vec<Escalation> {
    let mut steps: Vec<Escalation> = Vec::new();
    for (index, given) in spec.escalating_remediations.iter().enumerate() {
        let field = format!("spec.escalatingRemediations[{index}]");
        let in_field = |name: &str| format!("{field}.{name}");
        if steps.iter().any(|step| step.order == given.order) {
            let problem = format!("{} occurs twice: give every template another one", given.order);
            problems.add(in_field("order"), problem);
        }
        if given.timeout.0 < SHORTEST_ESCALATION {
            let problem = format!("{} gives no remediation a chance: write 1m or more", given.timeout);
            problems.add(in_field("timeout"), problem);
        }
        let template = checked_template(
            &in_field("remediationTemplate"),
            &given.remediation_template,
            namespace,
            problems,
        );
        steps.push(Escalation {
            template,
            order: given.order,
            timeout: Some(given.timeout.0),
        });
    }
    steps
}

/// The template without its namespace, after a check that it is that of the health check.
fn checked_template(
    field: &str,
    given: &TemplateReference,
    namespace: &str,
    problems: &mut Problems,
) -> TemplateReference {
    let given_namespace = given.namespace.as_str();
    if !given_namespace.is_empty() && given_namespace != namespace && !defect!(TemplateNamespaceIgnored) {
        let problem = format!(
            "{given_namespace:?} is not the namespace of the check: create the template in {namespace:?} and remove the field"
        );
        problems.add(format!("{field}.namespace"), problem);
    }
    for (name, text) in [("apiVersion", &given.api_version), ("name", &given.name)] {
        if text.is_empty() {
            problems.add(format!("{field}.{name}"), "is empty: name the template");
        }
    }
    if given.kind.strip_suffix("Template").is_none_or(str::is_empty) {
        let problem = format!(
            "{:?} does not end with Template: requests have the kind without it",
            given.kind
        );
        problems.add(format!("{field}.kind"), problem);
    }
    TemplateReference {
        namespace: String::new(),
        ..given.clone()
    }
}
