//! The reasons of a deployment's steps. Logs, events and tests use the same text.

/// The reason of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The spec is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The spec allows neither surge nor unavailable machines.
    #[error("maxSurge and maxUnavailable are both 0: one machine may be unavailable, or none could ever be replaced")]
    BoundsRaised,
    /// Before the first set is created.
    #[error("the deployment gets its finalizer")]
    FinalizerMissing,
    /// The deployment is being deleted and no set is left.
    #[error("the deployment is being deleted and has no sets: its finalizer is removed")]
    Released,
    /// The deployment is being deleted.
    #[error("the deployment is being deleted: the set {0} is deleted")]
    DeploymentDeleted(String),
    /// An orphan matches the selector.
    #[error("the set {0} has no controller and matches the selector: it is adopted")]
    Adopted(String),
    /// A set no longer matches the selector.
    #[error("the set {0} no longer matches the selector: it is released")]
    LetGo(String),
    /// An adopted set gets the template hash label.
    #[error("the set {0} gets the hash of its template")]
    Hashed(String),
    /// No set has the template.
    #[error("no set has the template: {name} is created with {replicas} machines")]
    NewSet {
        /// Its name.
        name: String,
        /// Its size.
        replicas: i32,
    },
    /// Two templates have one hash.
    #[error("another set has the name {0}: the next name is tried")]
    Collision(String),
    /// The newest set is synchronized with the deployment.
    #[error("the set {set} gets the deployment's {what}")]
    Synced {
        /// The set.
        set: String,
        /// The changed parts.
        what: String,
    },
    /// The deployment's replicas changed.
    #[error("the replicas changed: {set} is scaled from {from} to {to}")]
    Scaled {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
    },
    /// Only the record of the deployment's size is out of date.
    #[error("the set {0} records the deployment's size")]
    SizeNoted(String),
    /// A rollout creates new machines.
    #[error("rollout: {total} of at most {limit} machines exist: {set} is scaled from {from} to {to}")]
    Grown {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
        /// Machines of all sets, including those that are to be created and those that are being deleted.
        total: i64,
        /// Replicas and surge.
        limit: i64,
    },
    /// A rollout deletes old machines that do not serve.
    #[error("rollout: old machines are unavailable anyway: {set} is scaled from {from} to {to}")]
    CleanedUp {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
    },
    /// A rollout deletes old machines.
    #[error(
        "rollout: {available} machines are available and {least} are required: {set} is scaled from {from} to {to}"
    )]
    Shrunk {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
        /// Available machines before the change.
        available: i64,
        /// The required number of available machines.
        least: i64,
    },
    /// All old machines are deleted first.
    #[error("recreate: the old set {0} is scaled to 0")]
    Emptied(String),
    /// No old machine is left.
    #[error("recreate: no old machine is left: {set} gets {to} machines")]
    Refilled {
        /// The set.
        set: String,
        /// Its size.
        to: i32,
    },
    /// A machine was updated in place.
    #[error("in place: the machine {machine} is updated and moves to the set {set}")]
    HandedOver {
        /// The machine.
        machine: String,
        /// Its new set.
        set: String,
    },
    /// The old sets have only preserved failed machines left.
    #[error("in place: {set} has only preserved failed machines left: {from} are replaced")]
    KeptReplaced {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
    },
    /// The size of a set follows machines that changed their set.
    #[error("in place: machines changed their set: {set} is scaled from {from} to {to}")]
    Followed {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
    },
    /// The machine's change of its set is complete.
    #[error("in place: the new set counts the machine {0}")]
    Counted(String),
    /// An old set creates no machines while its machines are updated.
    #[error("in place: the set {0} creates no more machines")]
    ScaleUpDisabled(String),
    /// A node may be selected for an update.
    #[error("in place: the node {0} is a candidate for an update")]
    Candidate(String),
    /// A node is selected for an update.
    #[error("in place: the node {0} is selected for an update")]
    Selected(String),
    /// A node is updated and schedulable again.
    #[error("in place: the node {0} is updated and schedulable again")]
    Reopened(String),
    /// A user requested an earlier template.
    #[error("rollback to revision {0}")]
    RolledBack(i64),
    /// A rollback that is not possible.
    #[error("{0}")]
    NoRollback(String),
    /// An old set beyond the history limit.
    #[error("the set {0} is beyond the history limit")]
    Forgotten(String),
    /// cluster-autoscaler's list is normalized.
    #[error("the autoscaler's list of machines is normalized")]
    TriggerList,
    /// cluster-autoscaler chose a machine.
    #[error("the autoscaler chose the machine {0}")]
    Chosen(String),
    /// cluster-autoscaler chose a machine that is preserved.
    #[error("the autoscaler chose the machine {0}, which is preserved: another one is deleted")]
    ChosenAndPreserved(String),
    /// cluster-autoscaler no longer names the machine.
    #[error("the autoscaler no longer names the machine {0}")]
    NoLongerChosen(String),
    /// The node has an old template.
    #[error("rollout: the node {0} is tainted, so that pods prefer other nodes")]
    Tainted(String),
    /// The node has the newest template.
    #[error("the node {0} is up to date: its marks as outdated are removed")]
    Untainted(String),
    /// cluster-autoscaler may not remove the node.
    #[error("rollout: scale-down of the node {0} is disabled")]
    KeptAway(String),
    /// cluster-autoscaler may remove the node again.
    #[error("the rollout is complete: scale-down of the node {0} is enabled")]
    LetBack(String),
    /// The revision of the newest template.
    #[error("the deployment records its revision {0}")]
    Revision(i64),
    /// The observed state changed.
    #[error("the status changed")]
    Status,
}

impl Reason {
    /// The name of the variant, without its fields.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}
