//! The names of controllers, and lists that select them.

use std::collections::BTreeSet;
use std::fmt;

/// The name of a controller, to enable or disable it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Garbage collector: deletes objects whose owners are gone.
    GarbageCollector,
    /// Namespace controller: deletes the content of terminating namespaces and finalizes them.
    Namespaces,
    /// Creates the default service account of each namespace.
    ServiceAccounts,
    /// Publishes the root certificate in each namespace.
    RootCertificates,
    /// Taint eviction: deletes pods from nodes with taints that they do not tolerate.
    TaintEviction,
    /// Pod garbage collector: deletes pods that nothing else will delete.
    PodGc,
    /// Maintains the status of pod disruption budgets.
    Disruption,
    /// Node lifecycle: maintains conditions and taints of nodes whose kubelets are silent.
    NodeLifecycle,
    /// ReplicaSet controller: creates and deletes pods of ReplicaSets.
    ReplicaSet,
    /// Deployment controller: creates and scales ReplicaSets of Deployments.
    Deployment,
    /// DaemonSet controller: creates and deletes pods of DaemonSets.
    DaemonSet,
    /// StatefulSet controller: creates and deletes pods and claims of StatefulSets.
    StatefulSet,
    /// Job controller: runs pods of Jobs, and deletes finished Jobs after their TTL.
    Job,
    /// EndpointSlice controller: maintains the EndpointSlices of Services.
    EndpointSlice,
    /// Scheduler: assigns pods to nodes.
    Scheduler,
    /// Volume binder: binds and provisions volumes for claims.
    VolumeBinder,
    /// Protects claims and volumes in use from deletion.
    VolumeProtection,
    /// Creates claims for ephemeral volumes.
    EphemeralVolumes,
    /// Attaches volumes to the nodes of their pods, and detaches them.
    AttachDetach,
    /// Counts what the objects of a namespace consume of its resource quotas.
    ResourceQuota,
}

impl Name {
    /// All controllers.
    pub const ALL: &[Self] = &[
        Self::GarbageCollector,
        Self::Namespaces,
        Self::ServiceAccounts,
        Self::RootCertificates,
        Self::TaintEviction,
        Self::PodGc,
        Self::Disruption,
        Self::NodeLifecycle,
        Self::ReplicaSet,
        Self::Deployment,
        Self::DaemonSet,
        Self::StatefulSet,
        Self::Job,
        Self::EndpointSlice,
        Self::Scheduler,
        Self::VolumeBinder,
        Self::VolumeProtection,
        Self::EphemeralVolumes,
        Self::AttachDetach,
        Self::ResourceQuota,
    ];

    /// The name in a list of controllers: that of kube-controller-manager where it has such a controller.
    pub fn text(self) -> &'static str {
        match self {
            Self::GarbageCollector => "garbage-collector-controller",
            Self::Namespaces => "namespace-controller",
            Self::ServiceAccounts => "serviceaccount-controller",
            Self::RootCertificates => "root-ca-certificate-publisher-controller",
            Self::TaintEviction => "taint-eviction-controller",
            Self::PodGc => "pod-garbage-collector-controller",
            Self::Disruption => "disruption-controller",
            Self::NodeLifecycle => "node-lifecycle-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::Deployment => "deployment-controller",
            Self::DaemonSet => "daemonset-controller",
            Self::StatefulSet => "statefulset-controller",
            Self::Job => "job-controller",
            Self::EndpointSlice => "endpointslice-controller",
            Self::Scheduler => "kube-scheduler",
            Self::VolumeBinder => "persistentvolume-binder-controller",
            Self::VolumeProtection => "volume-protection-controller",
            Self::EphemeralVolumes => "ephemeral-volume-controller",
            Self::AttachDetach => "persistentvolume-attach-detach-controller",
            Self::ResourceQuota => "resourcequota-controller",
        }
    }

    /// The controllers that a list selects, with the rules of kube-controller-manager's `--controllers`: `*` selects all,
    /// `NAME` adds one, and `-NAME` removes one, wherever it stands. `none` alone selects none.
    ///
    /// # Errors
    /// An unknown name, or a list that only removes.
    pub fn select(items: &[String]) -> Result<BTreeSet<Self>, SelectionError> {
        if items == ["none"] {
            return Ok(BTreeSet::new());
        }
        let (mut selected, mut removed) = (BTreeSet::new(), BTreeSet::new());
        for item in items.iter().map(|item| item.trim()) {
            match item.strip_prefix('-') {
                Some(name) => drop(removed.insert(Self::named(name)?)),
                None if item == "*" => selected.extend(Self::ALL),
                None => drop(selected.insert(Self::named(item)?)),
            }
        }
        if selected.is_empty() {
            return Err(SelectionError::OnlyRemoves(items.join(",")));
        }
        Ok(selected.difference(&removed).copied().collect())
    }

    fn named(name: &str) -> Result<Self, SelectionError> {
        let mut all = Self::ALL.iter().copied();
        all.find(|known| known.text() == name)
            .ok_or_else(|| SelectionError::Unknown(name.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Errors of a list of controllers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No controller has this name.
    #[error("there is no controller {0:?}; write `*`, `none`, or names of: {names}", names = all_names())]
    Unknown(String),
    /// The list selects nothing from which it could remove.
    #[error("the list {0:?} selects no controller: start it with `*`, or write `none`")]
    OnlyRemoves(String),
}

fn all_names() -> String {
    let names: Vec<&str> = Name::ALL.iter().map(|name| name.text()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(list: &str) -> Result<Vec<Name>, String> {
        let items: Vec<String> = list.split(',').map(str::to_owned).collect();
        let selected = Name::select(&items).map_err(|error| error.to_string())?;
        Ok(selected.into_iter().collect())
    }

    #[test]
    fn lists_add_and_remove_controllers() {
        assert_eq!(selected("*"), Ok(Name::ALL.to_vec()));
        assert_eq!(selected("none"), Ok(Vec::new()));
        let two = Ok(vec![Name::GarbageCollector, Name::Namespaces]);
        assert_eq!(selected("namespace-controller,garbage-collector-controller"), two);
        for list in ["-job-controller,*", "*,-job-controller"] {
            let all = selected(list).unwrap();
            assert_eq!(
                (all.len(), all.contains(&Name::Job)),
                (Name::ALL.len() - 1, false),
                "{list}"
            );
        }
    }

    #[test]
    fn an_invalid_list_is_refused_with_what_is_possible() {
        let unknown = selected("*,-job").unwrap_err();
        assert!(
            unknown.contains("\"job\"") && unknown.contains("job-controller"),
            "{unknown}"
        );
        let none = selected("-job-controller").unwrap_err();
        assert!(none.contains("start it with `*`"), "{none}");
        assert!(selected("").is_err());
    }

    #[test]
    fn every_controller_has_its_own_name() {
        let names: BTreeSet<&str> = Name::ALL.iter().map(|name| name.text()).collect();
        assert_eq!(names.len(), Name::ALL.len());
    }
}
