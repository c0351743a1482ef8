//! The policy of a check, in either spelling of each setting.

use clock::Stream;
use mcm_api::GoDuration;
use scenario::Step;
use scenario::builder::{apply, delete};
use serde_json::{Map, Value, json};

use super::{MINUTE, SETTLED, UserActions};

const API: &str = "remediation.fakecloud.drydock.dev/v1alpha1";
const TEMPLATE: &str = "FakeCloudRemediationTemplate";
/// The templates that a policy may name.
const NAMES: [&str; 2] = ["first", "second"];
/// Timeouts of conditions of nodes in seconds. New nodes are not Ready for less than the shortest one.
const TIMEOUTS: [u64; 5] = [30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE];

/// The settings of a check.
#[derive(Debug)]
pub(super) struct Policy {
    /// Whether its conditions and startup timeout are in the block `checks`.
    nested_checks: bool,
    /// Whether its limits and template are in the block `remediation`.
    nested_remediation: bool,
    /// Type, status and timeout of conditions of nodes.
    node_rules: Vec<Rule>,
    machine_rules: Vec<Rule>,
    startup_timeout: Option<u64>,
    limit: Limit,
    max_in_flight: Option<Value>,
    cooldown: u64,
    delay: u64,
    remedy: Remedy,
}

/// Type, status and timeout in seconds.
type Rule = (&'static str, &'static str, u64);

#[derive(Debug)]
enum Limit {
    None,
    AtMost(Value),
    Range(String),
}

/// Who remediates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    Owner,
    /// The first template.
    Template,
    /// Both templates, with this timeout in seconds.
    Escalating(u64),
}

impl Policy {
    pub(super) fn draw(replicas: u64, stream: &mut Stream) -> Self {
        let mut node_rules = vec![
            ("Ready", "Unknown", timeout(stream)),
            ("Ready", "False", timeout(stream)),
        ];
        if stream.chance(0.6) {
            node_rules.push(("DiskPressure", "True", stream.below(5) * MINUTE));
        }
        let mut machine_rules = Vec::new();
        if stream.chance(0.25) {
            machine_rules.push(("Phase=Unknown", "True", MINUTE + stream.below(8) * MINUTE));
        }
        if stream.chance(0.25) {
            machine_rules.push(("Phase=CrashLoopBackOff", "True", SETTLED + stream.below(10) * MINUTE));
        }
        Self {
            nested_checks: stream.chance(0.4),
            nested_remediation: stream.chance(0.4),
            node_rules,
            machine_rules,
            startup_timeout: match stream.below(5) {
                0 => Some(0),
                1 => Some(5 * MINUTE),
                2 => Some(20 * MINUTE),
                _ => None,
            },
            limit: Limit::draw(replicas, stream),
            max_in_flight: stream.chance(0.3).then(|| max_in_flight(stream)),
            cooldown: duration(stream),
            delay: duration(stream),
            remedy: match stream.below(20) {
                0..=10 => Remedy::Owner,
                11..=16 => Remedy::Template,
                _ => Remedy::Escalating(MINUTE + stream.below(10) * MINUTE),
            },
        }
    }

    pub(super) fn has_templates(&self) -> bool {
        self.remedy != Remedy::Owner
    }

    pub(super) fn without_templates(self) -> Self {
        Self {
            remedy: Remedy::Owner,
            ..self
        }
    }

    /// How long a machine that is healthy again may not count as healthy, and remediation may wait.
    pub(super) fn longest_delay(&self) -> u64 {
        2 * LONGEST_DURATION + self.startup_timeout.unwrap_or_default()
    }

    /// Creates the templates, with their seconds. Some exist only after the check, and a user deletes some for a while.
    pub(super) fn templates(&self, span: u64, stream: &mut Stream) -> UserActions {
        let mut user_actions = UserActions::new();
        for name in NAMES.iter().filter(|_| self.has_templates()) {
            let created = if stream.chance(0.2) {
                stream.below(4 * SETTLED)
            } else {
                0
            };
            let create = template(name, stream);
            if stream.chance(0.3) {
                let deleted = created + 1 + stream.below(span);
                let again = deleted + MINUTE + stream.below(20 * MINUTE);
                user_actions.push((deleted, delete(TEMPLATE, name)));
                user_actions.push((again, create.clone()));
            }
            user_actions.push((created, create));
        }
        user_actions
    }

    /// The spec without a selector.
    pub(super) fn spec(&self) -> Value {
        let mut spec = json!({});
        let (nodes, machines) = (&self.node_rules, &self.machine_rules);
        if self.nested_checks {
            let mut checks = json!({
                "unhealthyNodeConditions": rules(nodes, true),
                "unhealthyMachineConditions": rules(machines, true),
            });
            if let Some(startup) = self.startup_timeout {
                checks["nodeStartupTimeoutSeconds"] = json!(startup);
            }
            spec["checks"] = checks;
        } else {
            spec["unhealthyConditions"] = rules(nodes, false);
            spec["unhealthyMachineConditions"] = rules(machines, false);
            if let Some(startup) = self.startup_timeout {
                spec["nodeStartupTimeout"] = text(startup);
            }
        }
        merge(&mut spec, self.limit.spec(self.nested_remediation));
        if let Some(most) = &self.max_in_flight {
            spec["maxInFlight"] = most.clone();
        }
        spec["stormCooldown"] = text(self.cooldown);
        spec["healthyDelay"] = text(self.delay);
        match self.remedy {
            Remedy::Owner => {}
            Remedy::Template if self.nested_remediation => {
                spec["remediation"]["templateRef"] = reference(NAMES[0]);
            }
            Remedy::Template => spec["remediationTemplate"] = reference(NAMES[0]),
            Remedy::Escalating(timeout) => {
                let step = |order: usize, name: &str| json!({ "remediationTemplate": reference(name), "order": order, "timeout": text(timeout) });
                let steps = NAMES.iter().enumerate().map(|(order, name)| step(order, name));
                spec["escalatingRemediations"] = steps.collect();
            }
        }
        spec
    }

    /// The change at the end: no limit, and rules that find every failure of a machine.
    pub(super) fn finally(&self) -> Value {
        let mut nodes = self.node_rules.clone();
        if !nodes.iter().any(|(type_, ..)| *type_ == "DiskPressure") {
            nodes.push(("DiskPressure", "True", 2 * MINUTE));
        }
        let mut change = without_limit();
        match self.nested_checks {
            true => change["checks"] = json!({ "unhealthyNodeConditions": rules(&nodes, true) }),
            false => change["unhealthyConditions"] = rules(&nodes, false),
        }
        change
    }

    /// A change of the spec by an operator.
    pub(super) fn change(&self, replicas: u64, stream: &mut Stream) -> Value {
        match stream.below(6) {
            0 | 1 => Limit::draw(replicas, stream).change(stream.chance(0.5)),
            2 => {
                let mut rules_now = self.node_rules.clone();
                for rule in &mut rules_now {
                    rule.2 = timeout(stream);
                }
                match self.nested_checks {
                    true => json!({ "checks": { "unhealthyNodeConditions": rules(&rules_now, true) } }),
                    false => json!({ "unhealthyConditions": rules(&rules_now, false) }),
                }
            }
            3 => json!({ "stormCooldown": text(duration(stream)), "healthyDelay": text(duration(stream)) }),
            4 => json!({ "maxInFlight": max_in_flight(stream) }),
            _ if self.has_templates() => without_template(),
            _ => json!({ "maxInFlight": null }),
        }
    }
}

impl Limit {
    fn draw(replicas: u64, stream: &mut Stream) -> Self {
        match stream.below(8) {
            0..=2 => Self::None,
            3 => Self::AtMost(json!(stream.below(1 + replicas))),
            4 | 5 => Self::AtMost(json!(format!("{}%", 20 * stream.below(6)))),
            _ => {
                let first = stream.below(3);
                Self::Range(format!("[{first}-{}]", first + stream.below(3)))
            }
        }
    }

    fn spec(&self, nested: bool) -> Value {
        match (self, nested) {
            (Self::None, _) => json!({}),
            (Self::AtMost(most), false) => json!({ "maxUnhealthy": most }),
            (Self::Range(range), false) => json!({ "unhealthyRange": range }),
            (Self::AtMost(most), true) => {
                json!({ "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": most } } })
            }
            (Self::Range(range), true) => json!({ "remediation": { "triggerIf": { "unhealthyInRange": range } } }),
        }
    }

    /// The change of any spec to this limit.
    fn change(&self, nested: bool) -> Value {
        let mut change = without_limit();
        let spec = self.spec(nested);
        let trigger = spec.pointer("/remediation/triggerIf").and_then(Value::as_object);
        if let Some(trigger) = trigger {
            let mut all = json!({ "unhealthyLessThanOrEqualTo": null, "unhealthyInRange": null });
            merge(&mut all, Value::Object(trigger.clone()));
            change["remediation"]["triggerIf"] = all;
        } else {
            merge(&mut change, spec);
        }
        change
    }
}

/// The change that removes all limits, whatever their spelling.
fn without_limit() -> Value {
    json!({ "maxUnhealthy": null, "unhealthyRange": null, "remediation": { "triggerIf": null } })
}

/// The change that removes all templates.
fn without_template() -> Value {
    json!({ "remediationTemplate": null, "escalatingRemediations": null, "remediation": { "templateRef": null } })
}

/// The longest cooldown and delay.
const LONGEST_DURATION: u64 = 10 * MINUTE;

/// A cooldown or delay, which is often absent.
fn duration(stream: &mut Stream) -> u64 {
    match stream.chance(0.3) {
        true => MINUTE + stream.below(LONGEST_DURATION - MINUTE),
        false => 0,
    }
}

fn timeout(stream: &mut Stream) -> u64 {
    let index = usize::try_from(stream.below(TIMEOUTS.len() as u64)).unwrap_or_default();
    TIMEOUTS[index]
}

fn max_in_flight(stream: &mut Stream) -> Value {
    match stream.below(3) {
        0 => json!("40%"),
        number => json!(number),
    }
}

fn text(seconds: u64) -> Value {
    json!(GoDuration(std::time::Duration::from_secs(seconds)).to_string())
}

fn rules(rules: &[Rule], in_seconds: bool) -> Value {
    let rule = |(type_, status, timeout): &Rule| match in_seconds {
        true => json!({ "type": type_, "status": status, "timeoutSeconds": timeout }),
        false => json!({ "type": type_, "status": status, "timeout": text(*timeout) }),
    };
    rules.iter().map(rule).collect()
}

fn reference(name: &str) -> Value {
    json!({ "apiVersion": API, "kind": TEMPLATE, "name": name })
}

/// A template of any strategy.
fn template(name: &str, stream: &mut Stream) -> Step {
    const STRATEGIES: [&str; 4] = ["Reboot", "Rebuild", "Delete", "Escalate"];
    let strategy = STRATEGIES[usize::try_from(stream.below(4)).unwrap_or_default()];
    let spec = json!({
        "strategy": strategy,
        "retryLimit": 1 + stream.below(4),
        "timeout": text(MINUTE + stream.below(5) * MINUTE),
    });
    apply(json!({
        "apiVersion": API,
        "kind": TEMPLATE,
        "metadata": { "name": name },
        "spec": { "template": { "spec": spec } },
    }))
}

/// Adds fields to an object.
fn merge(into: &mut Value, fields: Value) {
    let empty = Map::new();
    for (key, value) in fields.as_object().unwrap_or(&empty) {
        into[key] = value.clone();
    }
}
