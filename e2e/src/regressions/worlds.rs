//! Worlds of entries about sets and deployments, and their steps.
//!
//! Sets adopt machines that exist before their deployment, so that these have fixed names: POOL-1, POOL-2 and
//! so on.

use std::time::Duration;

use harness::regression::Case;
use mcm_api::machine::MachineTemplateSpec;
use mcm_api::{Code, Phase, keys};
use mcm_core::template::{hash, set_name};
use scenario::api_faults::{Action, At, Match, Pattern, Rule, Verb};
use scenario::builder::{
    all, api_fault_by, apply, boot_delay, fail_calls, fault_hits, field, health_timeout, lift, lift_api_fault,
    may_miss, node_grace, observed, phase, slack, vm_count,
};
use scenario::expect::Condition;
use scenario::step::{Client, CloudCall, Patch};
use scenario::{DurationExpression, Scenario, Step};
use serde_json::{Value, json};

use super::POOL;

/// Past times, in ascending order, at which cluster-autoscaler selected machines.
pub(crate) const TIMES: [&str; 3] = ["2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z", "2026-01-01T00:04:00Z"];

/// A deployment and the machines that exist before it.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) name: &'static str,
    pub(crate) class: &'static str,
    pub(crate) machines: u32,
    /// The deployment's replicas.
    pub(crate) replicas: u32,
    pub(crate) strategy: Value,
    /// The maximum number of automatically preserved failed machines.
    pub(crate) maximum: u32,
    /// Whether mcm's own health timeout is disabled.
    pub(crate) patient: bool,
    /// The preservation timeout; `None`: the stage's default.
    pub(crate) kept_for: Option<&'static str>,
}

/// The usual pool of the entries with this number of machines: a surge of one, none unavailable.
pub(crate) fn pool(machines: u32) -> Pool {
    Pool {
        name: POOL,
        class: "class-a",
        machines,
        replicas: machines,
        strategy: rolling(1, 0),
        maximum: 0,
        patient: false,
        kept_for: None,
    }
}

/// A worker pool over three zones: one deployment per zone; machines and maximum are split among them, with the
/// remainder in the first zones.
pub(crate) fn over_zones(machines: u32, maximum: u32) -> [Pool; 3] {
    let zones = [("md-z1", "class-z1"), ("md-z2", "class-z2"), ("md-z3", "class-z3")];
    let share = |whole: u32, zone: u32| whole / 3 + u32::from(zone < whole % 3);
    let mut zone = 0;
    zones.map(|(name, class)| {
        let pool = Pool {
            name,
            class,
            maximum: share(maximum, zone),
            kept_for: Some("24h0m0s"),
            ..pool(share(machines, zone))
        };
        zone += 1;
        pool
    })
}

pub(crate) fn rolling(surge: u32, unavailable: u32) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

impl Pool {
    fn template(&self) -> Value {
        let mut template = json!({
            "metadata": { "labels": { "name": self.name } },
            "spec": { "class": { "kind": "MachineClass", "name": self.class } },
        });
        if let Some(time) = self.kept_for {
            template["spec"]["machinePreserveTimeout"] = json!(time);
        }
        if self.patient {
            template["spec"]["disableHealthTimeout"] = json!(true);
        }
        template
    }

    fn hash(&self) -> u32 {
        let template: MachineTemplateSpec = serde_json::from_value(self.template()).unwrap_or_default();
        hash(&template, None)
    }

    /// The name of its first set.
    pub(crate) fn set(&self) -> String {
        set_name(self.name, self.hash())
    }

    /// Its machines, by their names.
    pub(crate) fn names(&self) -> Vec<String> {
        (1..=self.machines)
            .map(|number| format!("{}-{number}", self.name))
            .collect()
    }

    /// A machine of this class that its set adopts.
    pub(crate) fn machine(&self, name: &str, class: &str) -> Step {
        let labels = json!({ "name": self.name, keys::TEMPLATE_HASH_LABEL: self.hash().to_string() });
        apply(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": { "name": name, "labels": labels },
            "spec": { "class": { "kind": "MachineClass", "name": class } },
        }))
    }

    /// The deployment itself.
    pub(crate) fn deployment(&self) -> Step {
        let mut deployment = json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "MachineDeployment",
            "metadata": { "name": self.name },
            "spec": {
                "replicas": self.replicas,
                "selector": { "matchLabels": { "name": self.name } },
                "strategy": self.strategy,
                "template": self.template(),
            },
        });
        if self.maximum > 0 {
            deployment["spec"]["autoPreserveFailedMax"] = json!(self.maximum);
        }
        apply(deployment)
    }

    /// All its machines are Running.
    pub(crate) fn runs(&self) -> Condition {
        all(self.names().iter().map(|name| phase(name, Phase::Running)))
    }
}

/// Creates the pools and waits until all their machines are Running.
pub(crate) fn settled(story: Scenario, pools: &[Pool]) -> Scenario {
    let machines = pools.iter().flat_map(|pool| {
        let names = pool.names().into_iter();
        names.map(|name| pool.machine(&name, pool.class)).collect::<Vec<_>>()
    });
    let story = story
        .steps(machines)
        .eventually(boot_delay() + slack(), all(pools.iter().map(Pool::runs)))
        .steps(pools.iter().map(Pool::deployment));
    let available = pools
        .iter()
        .map(|pool| status(pool.name, "availableReplicas", pool.machines));
    story.eventually(slack(), all(available))
}

/// A number in the deployment's status.
pub(crate) fn status(deployment: &str, name: &str, is: u32) -> Condition {
    field("MachineDeployment", deployment, &format!("/status/{name}"), is)
}

/// The usual pool has exactly this number of machines, all available and of the newest template.
pub(crate) fn at_size(replicas: u32) -> Condition {
    let numbers = ["replicas", "updatedReplicas", "availableReplicas", "readyReplicas"];
    let numbers = numbers.map(|name| status(POOL, name, replicas));
    all(numbers.into_iter().chain([observed("MachineDeployment", POOL)]))
}

/// The same, and its first set has no machines.
pub(crate) fn rolled(replicas: u32) -> Condition {
    let old = pool(replicas).set();
    all([at_size(replicas), field("MachineSet", &old, "/spec/replicas", 0)])
}

/// This number of machines of the usual pool have the newest template.
pub(crate) fn updated(machines: u32) -> Condition {
    status(POOL, "updatedReplicas", machines)
}

/// The time from the last sign of life to Failed and preserved.
pub(crate) fn failing() -> DurationExpression {
    node_grace() + health_timeout() + 2 * slack()
}

/// The machine is Failed, and preserved with its VM.
pub(crate) fn kept(machine: &str) -> Condition {
    all([phase(machine, Phase::FailedPreserved), vm_count(machine, 1)])
}

/// A class with this name in a zone, with the same cloud and Secret as the first one.
pub(crate) fn class(name: &str, zone: &str) -> Step {
    class_of(name, zone, "class-a-secret")
}

fn class_of(name: &str, zone: &str, secret: &str) -> Step {
    apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": name },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small", "image": "linux-1", "zone": zone,
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
        },
        "secretRef": { "name": secret },
    }))
}

/// The class `class-bad`: its VMs boot, and their kubelets are rejected.
pub(crate) fn bad_class() -> [Step; 2] {
    let secret = apply(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "class-bad-secret" },
        "stringData": {
            "apiToken": "fixture-cloud-credential",
            "userData": "#!/bin/sh\njoin --token abcdef.0123456789abcdef\n",
        },
    }));
    [secret, class_of("class-bad", "z1", "class-bad-secret")]
}

/// mcm's patches of these resources (fault `api`) and its creations of machines (fault `made`) take five
/// seconds longer.
pub(crate) fn late_sets(sets: &str) -> [Step; 2] {
    let late = Action::Delay {
        at: At::BeforeCommit,
        by: Duration::from_secs(5),
    };
    let created = Rule {
        matches: Match {
            verbs: vec![Verb::Create],
            resource: Some(Pattern::new("machines")),
            ..Match::default()
        },
        ..Rule::new("made", late.clone())
    };
    [
        api_fails(&[Verb::Patch], sets, late),
        // Entries expect that no machine is created.
        may_miss(api_fault_by(Client::Mcm, created)),
    ]
}

/// Merges a patch into an object.
pub(crate) fn merge(kind: &str, name: &str, merge: Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
        merge,
        status: false,
    })
}

/// Merges a patch into the usual pool's spec.
pub(crate) fn spec(change: Value) -> Step {
    merge("MachineDeployment", POOL, json!({ "spec": change }))
}

/// Rolls the usual pool to this class.
pub(crate) fn to_class(class: &str) -> Step {
    spec(json!({ "template": { "spec": { "class": { "name": class } } } }))
}

/// Scales the usual pool.
pub(crate) fn scale(replicas: u32) -> Step {
    spec(json!({ "replicas": replicas }))
}

/// cluster-autoscaler selects a machine of the usual pool and lowers the replicas in one request.
pub(crate) fn autoscaler(machine: &str, time: &str, replicas: u32) -> Step {
    let annotations = json!({
        keys::TRIGGER_DELETION_ANNOTATION: format!("{machine}~{time}"),
        keys::LAST_SCALE_ANNOTATION: time,
    });
    let change = json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": replicas } });
    merge("MachineDeployment", POOL, change)
}

/// Deletions of VMs block until [`drains_end`].
pub(crate) fn drains_take_long() -> Step {
    fail_calls("drain", CloudCall::DeleteMachine, "*", Code::Unavailable)
}

/// A VM is to be deleted and is not, because of [`drains_take_long`].
pub(crate) fn drain_lasts() -> Condition {
    fault_hits("drain", 1)
}

/// Deletions of VMs complete again.
pub(crate) fn drains_end() -> Step {
    lift("drain")
}

/// Disturbs mcm's requests of this kind until [`api_recovers`].
pub(crate) fn api_fails(verbs: &[Verb], resource: &str, action: Action) -> Step {
    api_trouble_times(verbs, resource, action, None)
}

/// The same, a limited number of times.
pub(crate) fn api_trouble_times(verbs: &[Verb], resource: &str, action: Action, times: Option<u32>) -> Step {
    let rule = Rule {
        matches: Match {
            verbs: verbs.to_vec(),
            resource: Some(Pattern::new(resource)),
            times,
            ..Match::default()
        },
        ..Rule::new("api", action)
    };
    api_fault_by(Client::Mcm, rule)
}

/// Ends the disturbance.
pub(crate) fn api_recovers() -> Step {
    lift_api_fault("api")
}

/// A refusal with this code.
pub(crate) fn refusal(code: u16) -> Action {
    Action::Fail {
        code,
        at: At::BeforeCommit,
        retry_after: None,
        message: None,
    }
}

/// A case with a defect that must break one of these invariants; without invariants there is no defect.
pub(crate) fn case(id: &'static str, scenario: Scenario, breaks: &'static [&'static str]) -> Case {
    Case {
        id,
        scenario,
        mutant: !breaks.is_empty(),
        breaks,
    }
}
