//! Builder functions for workloads, their pods and volumes.

use crate::duration::DurationExpression;
use crate::expect::{Attached, Condition, FieldOf, PodState, Pods, PodsOn, VolumesOf};
use crate::step::{Answer, Apply, Deletion, Drain, ForceDeletion, Step};
use crate::workload::{Budget, Priority, Workload};

/// Creates a Deployment, or changes the existing one.
pub fn deployment(workload: Workload) -> Step {
    Step::Apply(Apply::Deployment(workload))
}

/// Creates a StatefulSet, or changes the existing one.
pub fn stateful_set(workload: Workload) -> Step {
    Step::Apply(Apply::StatefulSet(workload))
}

/// Creates a DaemonSet, or changes the existing one.
pub fn daemon_set(workload: Workload) -> Step {
    Step::Apply(Apply::DaemonSet(workload))
}

/// A workload with one small pod.
pub fn workload(name: &str) -> Workload {
    Workload {
        name: name.to_owned(),
        ..Workload::default()
    }
}

impl Workload {
    /// Sets the number of pods.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Sets a namespace other than the scenario's.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the CPU request of each pod, for example `900m`.
    pub fn cpu(mut self, cpu: &str) -> Self {
        self.cpu = Some(cpu.to_owned());
        self
    }

    /// Sets the priority class of its pods.
    pub fn priority(mut self, class: &str) -> Self {
        self.priority_class = Some(class.to_owned());
        self
    }

    /// Sets how long its pods stay on an unreachable node.
    pub fn tolerating(mut self, time: impl Into<DurationExpression>) -> Self {
        self.toleration = Some(time.into());
        self
    }

    /// Gives each of its pods a volume of that size.
    pub fn volume(mut self, size: &str) -> Self {
        self.volume = Some(size.to_owned());
        self
    }
}

/// Creates a disruption budget for a workload.
pub fn budget(of: &str, max_unavailable: u32) -> Step {
    Step::Apply(Apply::Budget(Budget {
        of: of.to_owned(),
        max_unavailable,
    }))
}

/// Creates a priority class.
pub fn priority_class(name: &str, value: i32) -> Step {
    Step::Apply(Apply::Priority(Priority {
        name: name.to_owned(),
        value,
    }))
}

/// Creates the StorageClass of the simulated cloud.
pub fn storage_class() -> Step {
    Step::Apply(Apply::StorageClass)
}

/// Creates a namespace.
pub fn namespace(name: &str) -> Step {
    Step::Apply(Apply::Namespace(name.to_owned()))
}

/// Cordons a node and evicts its pods, all of which must be removed within a time.
pub fn drain(node: &str, within: impl Into<DurationExpression>) -> Step {
    Step::Drain(Drain {
        node: node.to_owned(),
        within: within.into(),
    })
}

/// Removes an object at once.
pub fn force_delete(kind: &str, name: &str) -> Step {
    Step::ForceDelete(ForceDeletion(Deletion {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        answer: Answer::Deleted,
    }))
}

/// A field of an object has not changed.
pub fn unchanged(kind: &str, name: &str, field: &str) -> Condition {
    Condition::Unchanged(FieldOf {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        field: field.to_owned(),
    })
}

/// The pods of a workload, to be filtered and counted.
pub fn pods(of: &str) -> Pods {
    Pods {
        of: of.to_owned(),
        on: None,
        are: None,
        at_least: None,
        at_most: None,
    }
}

impl Pods {
    /// Only pods on the node of this machine.
    pub fn on(mut self, machine: &str) -> Self {
        self.on = Some(machine.to_owned());
        self
    }

    /// Only pods in this state.
    pub fn are(mut self, state: PodState) -> Self {
        self.are = Some(state);
        self
    }

    /// There are at least `number`.
    pub fn at_least(mut self, number: usize) -> Condition {
        self.at_least = Some(number);
        Condition::Pods(self)
    }

    /// There are at most `number`.
    pub fn at_most(mut self, number: usize) -> Condition {
        self.at_most = Some(number);
        Condition::Pods(self)
    }

    /// There are exactly `number`.
    pub fn exactly(mut self, number: usize) -> Condition {
        (self.at_least, self.at_most) = (Some(number), Some(number));
        Condition::Pods(self)
    }
}

/// The pods of a workload on a node are the same, and none is being deleted.
pub fn same_pods(of: &str, on: &str) -> Condition {
    Condition::SamePods(PodsOn {
        of: of.to_owned(),
        on: on.to_owned(),
    })
}

/// The volume of a claim is attached to the node of a machine.
pub fn attached_to(claim: &str, machine: &str) -> Condition {
    Condition::Attached(Attached {
        claim: claim.to_owned(),
        to: Some(machine.to_owned()),
        at_least: Some(1),
        at_most: None,
    })
}

/// The volume of a claim is attached to at most `nodes` nodes.
pub fn attached_at_most(claim: &str, nodes: usize) -> Condition {
    Condition::Attached(Attached {
        claim: claim.to_owned(),
        to: None,
        at_least: None,
        at_most: Some(nodes),
    })
}

/// The number of volumes of a claim.
pub fn volumes_of(claim: &str, is: usize) -> Condition {
    Condition::VolumesOf(VolumesOf {
        claim: claim.to_owned(),
        is,
    })
}
