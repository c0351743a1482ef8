//! The builder's words for workloads, their pods and volumes, and what is done to them.

use crate::duration::DurationExpression;
use crate::expect::{Attached, Condition, FieldOf, PodState, Pods, PodsOn, VolumesOf};
use crate::step::{Answer, Apply, Deletion, Evict, ForceDeletion, Step};
use crate::workload::{Budget, Priority, Workload};

/// Creates a Deployment, or changes the one that is there.
pub fn deployment(workload: Workload) -> Step {
    Step::Apply(Apply::Deployment(workload))
}

/// Creates a StatefulSet, or changes the one that is there.
pub fn stateful_set(workload: Workload) -> Step {
    Step::Apply(Apply::StatefulSet(workload))
}

/// Creates a DaemonSet, or changes the one that is there.
pub fn daemon_set(workload: Workload) -> Step {
    Step::Apply(Apply::DaemonSet(workload))
}

/// A workload of that name: one small pod.
pub fn workload(name: &str) -> Workload {
    Workload {
        name: name.to_owned(),
        ..Workload::default()
    }
}

impl Workload {
    /// So many pods.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// In that namespace instead of the scenario's.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Each pod asks for so much, as in `900m`.
    pub fn cpu(mut self, cpu: &str) -> Self {
        self.cpu = Some(cpu.to_owned());
        self
    }

    /// Its pods have that priority class.
    pub fn priority(mut self, class: &str) -> Self {
        self.priority_class = Some(class.to_owned());
        self
    }

    /// Its pods stay so long on a node that does not answer.
    pub fn tolerating(mut self, time: impl Into<DurationExpression>) -> Self {
        self.toleration = Some(time.into());
        self
    }

    /// Each of its pods has a volume of that size.
    pub fn volume(mut self, size: &str) -> Self {
        self.volume = Some(size.to_owned());
        self
    }
}

/// At most so many pods of a workload may be disrupted at once.
pub fn budget(of: &str, max_unavailable: u32) -> Step {
    Step::Apply(Apply::Budget(Budget {
        of: of.to_owned(),
        max_unavailable,
    }))
}

/// Creates a class of priorities.
pub fn priority_class(name: &str, value: i32) -> Step {
    Step::Apply(Apply::Priority(Priority {
        name: name.to_owned(),
        value,
    }))
}

/// Creates the class of the cloud's volumes.
pub fn storage_class() -> Step {
    Step::Apply(Apply::StorageClass)
}

/// Creates a namespace.
pub fn namespace(name: &str) -> Step {
    Step::Apply(Apply::Namespace(name.to_owned()))
}

/// Cordons the node of a machine and evicts its pods, all of which must be gone within that time.
pub fn evict(machine: &str, within: impl Into<DurationExpression>) -> Step {
    Step::Evict(Evict {
        machine: machine.to_owned(),
        within: within.into(),
    })
}

/// Removes an object at once.
pub fn force_delete(kind: &str, name: &str) -> Step {
    Step::ForceDelete(ForceDeletion(Deletion {
        kind: kind.to_owned(),
        name: name.to_owned(),
        answer: Answer::Deleted,
    }))
}

/// A field of an object is what it was.
pub fn unchanged(kind: &str, name: &str, field: &str) -> Condition {
    Condition::Unchanged(FieldOf {
        kind: kind.to_owned(),
        name: name.to_owned(),
        field: field.to_owned(),
    })
}

/// The pods of a workload, to be narrowed down and counted.
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
    /// Only those on the node of that machine.
    pub fn on(mut self, machine: &str) -> Self {
        self.on = Some(machine.to_owned());
        self
    }

    /// Only those in that state.
    pub fn are(mut self, state: PodState) -> Self {
        self.are = Some(state);
        self
    }

    /// There are at least so many.
    pub fn at_least(mut self, number: usize) -> Condition {
        self.at_least = Some(number);
        Condition::Pods(self)
    }

    /// There are at most so many.
    pub fn at_most(mut self, number: usize) -> Condition {
        self.at_most = Some(number);
        Condition::Pods(self)
    }

    /// There are exactly so many.
    pub fn exactly(mut self, number: usize) -> Condition {
        (self.at_least, self.at_most) = (Some(number), Some(number));
        Condition::Pods(self)
    }
}

/// The pods of a workload on a node are the same, and none is to go.
pub fn same_pods(of: &str, on: &str) -> Condition {
    Condition::SamePods(PodsOn {
        of: of.to_owned(),
        on: on.to_owned(),
    })
}

/// The volume of a claim is attached to the node of that machine.
pub fn attached_to(claim: &str, machine: &str) -> Condition {
    Condition::Attached(Attached {
        claim: claim.to_owned(),
        to: Some(machine.to_owned()),
        at_least: Some(1),
        at_most: None,
    })
}

/// The volume of a claim is attached to at most so many nodes.
pub fn attached_at_most(claim: &str, nodes: usize) -> Condition {
    Condition::Attached(Attached {
        claim: claim.to_owned(),
        to: None,
        at_least: None,
        at_most: Some(nodes),
    })
}

/// So many volumes that were made for a claim are there.
pub fn volumes_of(claim: &str, is: usize) -> Condition {
    Condition::VolumesOf(VolumesOf {
        claim: claim.to_owned(),
        is,
    })
}
