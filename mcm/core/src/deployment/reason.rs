//! Why a deployment does what it does. Logs, events and tests print the same text.

/// The reason of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// `spec` is not usable.
    #[error("{0}")]
    Invalid(String),
    /// Before any set is made.
    #[error("the deployment gets its finalizer")]
    FinalizerMissing,
    /// The deployment is being deleted and no set is left.
    #[error("the deployment is being deleted and has no sets: its finalizer goes")]
    Released,
    /// The deployment is being deleted.
    #[error("the deployment is being deleted, and the set {0} with it")]
    DeploymentDeleted(String),
    /// An orphan matches.
    #[error("the set {0} belongs to nobody and matches: it is adopted")]
    Adopted(String),
    /// A set no longer matches.
    #[error("the set {0} no longer matches: it is released")]
    LetGo(String),
    /// An adopted set is told from others by its template's hash.
    #[error("the set {0} gets the hash of its template")]
    Hashed(String),
    /// No set has the template.
    #[error("no set has the template: {name} is made with {replicas} machines")]
    NewSet {
        /// Its name.
        name: String,
        /// Its size.
        replicas: i32,
    },
    /// Two templates have one hash.
    #[error("the name {0} is another set's: the next one is tried")]
    Collision(String),
    /// The newest set follows the deployment.
    #[error("the set {set} gets the deployment's {what}")]
    Synced {
        /// The set.
        set: String,
        /// Which parts.
        what: String,
    },
    /// The deployment's replicas changed.
    #[error("the replicas changed: {set} goes from {from} to {to}")]
    Scaled {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
    },
    /// Only the record of the deployment's size is out of date.
    #[error("the set {0} notes the deployment's size")]
    SizeNoted(String),
    /// A rollout makes new machines.
    #[error("rollout: {total} of at most {limit} machines are there: {set} goes from {from} to {to}")]
    Grown {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
        /// Machines of all sets, those that are ordered and those that are going among them.
        total: i64,
        /// Replicas and surge.
        limit: i64,
    },
    /// A rollout removes old machines that serve nobody.
    #[error("rollout: old machines are unavailable anyway: {set} goes from {from} to {to}")]
    CleanedUp {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
    },
    /// A rollout removes old machines.
    #[error("rollout: {available} machines are available and {least} are enough: {set} goes from {from} to {to}")]
    Shrunk {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
        /// Machines that are available before.
        available: i64,
        /// Machines that must be.
        least: i64,
    },
    /// All old machines go first.
    #[error("recreate: the old set {0} goes")]
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
    #[error("in place: the machine {machine} is updated and goes to the set {set}")]
    HandedOver {
        /// The machine.
        machine: String,
        /// Its new set.
        set: String,
    },
    /// Only failed machines that are kept are left to update.
    #[error("in place: of {set} none but failed machines that are kept are left: {from} are replaced")]
    KeptReplaced {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
    },
    /// A set's size follows machines that were handed over.
    #[error("in place: machines were handed over: {set} goes from {from} to {to}")]
    Followed {
        /// The set.
        set: String,
        /// Its size.
        from: i32,
        /// Its new size.
        to: i32,
    },
    /// The machine's hand-over is complete.
    #[error("in place: the set of {0} counts it")]
    Counted(String),
    /// An old set makes no machines while its machines are updated.
    #[error("in place: the set {0} makes no more machines")]
    ScaleUpDisabled(String),
    /// A node may be chosen for an update.
    #[error("in place: the node {0} is out of date")]
    Candidate(String),
    /// A node is updated next.
    #[error("in place: the node {0} is updated")]
    Selected(String),
    /// A node is updated and used again.
    #[error("in place: the node {0} is updated and open for pods")]
    Reopened(String),
    /// A person asked for an earlier template.
    #[error("rollback to revision {0}")]
    RolledBack(i64),
    /// A rollback that cannot be.
    #[error("{0}")]
    NoRollback(String),
    /// An old set that nobody needs.
    #[error("the set {0} is beyond the history limit")]
    Forgotten(String),
    /// cluster-autoscaler's list is put in order.
    #[error("the autoscaler's list of machines is put in order")]
    TriggerList,
    /// cluster-autoscaler chose a machine.
    #[error("the autoscaler chose the machine {0}")]
    Chosen(String),
    /// cluster-autoscaler chose a machine that is preserved.
    #[error("the autoscaler chose the machine {0}, which is preserved: another one goes")]
    ChosenAndPreserved(String),
    /// cluster-autoscaler changed its mind.
    #[error("the autoscaler no longer names the machine {0}")]
    NoLongerChosen(String),
    /// The node is behind an old template.
    #[error("rollout: pods had better not go to the node {0}")]
    Tainted(String),
    /// The node is behind the newest template.
    #[error("the node {0} is up to date: pods may go there")]
    Untainted(String),
    /// cluster-autoscaler leaves the node alone.
    #[error("rollout: the autoscaler is kept away from the node {0}")]
    KeptAway(String),
    /// cluster-autoscaler may look at the node again.
    #[error("the rollout is over: the autoscaler may look at the node {0}")]
    LetBack(String),
    /// The number of the newest template.
    #[error("the deployment notes its revision {0}")]
    Revision(i64),
    /// What is observed changed.
    #[error("the status changed")]
    Status,
}

impl Reason {
    /// What kind of reason it is, without what it carries.
    pub fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}
