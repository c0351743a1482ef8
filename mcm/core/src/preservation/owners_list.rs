//! The owner's list of preserved failed machines, in the status of their deployment, or of their set if there is no
//! deployment. Its length counts against the maximum of automatic preservations.
//!
//! Every change is decided on one version of that object, and its patch carries that resourceVersion.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::deployment::MachineDeploymentSpec;
use mcm_api::{MachineDeployment, MachineSet, PreservationEntry, PreservedBy};
use serde_json::{Value, json};

use super::Admission;
use crate::template::template_hash;

/// The object that has the list.
#[derive(Clone, Copy, Debug)]
pub enum OwnersList<'a> {
    /// A deployment.
    Deployment(&'a MachineDeployment),
    /// A set that no deployment controls.
    Set(&'a MachineSet),
}

/// The answer to a machine's claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The machine is in the list.
    Entered,
    /// The machine may be entered with this patch of the status, which carries the resourceVersion.
    Enter(Value),
    /// The machine may not be entered.
    Refused(Admission),
}

/// A machine's view of its owner's list.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ListView {
    /// The list is not cached; it must be read.
    #[default]
    Unknown,
    /// The machine has no owner with a list.
    NoList,
    /// The list in the cache.
    Known {
        /// The maximum of automatic preservations.
        maximum: usize,
        /// Whether a rollout is in progress.
        rolling: bool,
        /// Whether the owner is a deployment, which may have rollouts.
        deployed: bool,
        /// The machine's own entry.
        entry: Option<PreservationEntry>,
        /// The names of the other machines that are in the list.
        others: BTreeSet<String>,
    },
}

impl ListView {
    /// Whether the cache excludes an automatic preservation.
    pub(crate) fn excludes_automatic(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::NoList => true,
            Self::Known { maximum, entry, .. } => *maximum == 0 && entry.is_none(),
        }
    }

    /// How many failed machines are preserved without a request.
    pub(crate) fn maximum(&self) -> usize {
        match self {
            Self::Known { maximum, .. } => *maximum,
            Self::Unknown | Self::NoList => 0,
        }
    }

    pub(crate) fn is_rolling(&self) -> bool {
        matches!(self, Self::Known { rolling: true, .. })
    }

    /// Whether the machine may belong to a deployment with a rollout.
    pub(crate) fn may_roll(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::NoList => false,
            Self::Known { deployed, .. } => *deployed,
        }
    }

    /// Whether another machine of that name is in the list, and this one is not.
    pub(crate) fn prefers(&self, other: &str) -> bool {
        matches!(self, Self::Known { entry: None, others, .. } if others.contains(other))
    }

    pub(crate) fn entry(&self) -> Option<&PreservationEntry> {
        match self {
            Self::Known { entry, .. } => entry.as_ref(),
            Self::Unknown | Self::NoList => None,
        }
    }
}

/// Whether a deployment is being rolled out; `rolled_out`: the hash of the template that was rolled out last.
pub(crate) fn is_rolling(spec: &MachineDeploymentSpec, rolled_out: &str) -> bool {
    !spec.paused && !rolled_out.is_empty() && rolled_out != template_hash(&spec.template)
}

impl OwnersList<'_> {
    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Deployment(one) => &one.metadata,
            Self::Set(one) => &one.metadata,
        }
    }

    fn entries(&self) -> &[PreservationEntry] {
        match self {
            Self::Deployment(one) => &one.status.preservations,
            Self::Set(one) => &one.status.preservations,
        }
    }

    fn specified(&self) -> Option<i32> {
        match self {
            Self::Deployment(one) => one
                .spec
                .auto_preserve_failed_max
                .or(one.spec.auto_preserve_failed_machine_max),
            Self::Set(one) => one
                .spec
                .auto_preserve_failed_max
                .or(one.spec.auto_preserve_failed_machine_max),
        }
    }

    /// The maximum of automatic preservations.
    pub fn maximum(&self) -> usize {
        usize::try_from(self.specified().unwrap_or_default()).unwrap_or_default()
    }

    /// Whether a rollout is in progress, so that failing machines are replaced. A standalone set has no rollouts.
    pub fn is_rolling(&self) -> bool {
        match self {
            Self::Deployment(one) => is_rolling(&one.spec, &one.status.rolled_out),
            Self::Set(_) => false,
        }
    }

    /// The view of the machine with that uid.
    pub fn view_of(&self, uid: &str) -> ListView {
        let others = self.entries().iter().filter(|entry| entry.uid != uid);
        ListView::Known {
            others: others.map(|entry| entry.name.clone()).collect(),
            maximum: self.maximum(),
            rolling: self.is_rolling(),
            deployed: matches!(self, Self::Deployment(_)),
            entry: self.entry(uid).cloned(),
        }
    }

    fn entry(&self, uid: &str) -> Option<&PreservationEntry> {
        self.entries().iter().find(|entry| entry.uid == uid)
    }

    /// Enters a failing machine. The maximum applies only to automatic preservations that are not a repetition
    /// (`again`).
    pub fn claim(&self, entry: &PreservationEntry, again: bool) -> Claim {
        if self.is_rolling() {
            return Claim::Refused(Admission::RollingOut);
        }
        if self.entry(&entry.uid).is_some_and(|known| known.by == entry.by) {
            return Claim::Entered;
        }
        let mut entries: Vec<_> = self.entries().to_vec();
        let others = entries.iter().filter(|known| known.uid != entry.uid).count();
        if entry.by == PreservedBy::Auto && !again && others >= self.maximum() {
            return Claim::Refused(Admission::Full);
        }
        match entries.iter_mut().find(|known| known.uid == entry.uid) {
            Some(known) => *known = entry.clone(),
            None => entries.push(entry.clone()),
        }
        Claim::Enter(self.patch(&entries))
    }

    /// The patch that removes a machine from the list; `None`: it is not in the list.
    pub fn leave(&self, uid: &str) -> Option<Value> {
        self.entry(uid)?;
        let others: Vec<_> = self.entries().iter().filter(|entry| entry.uid != uid).collect();
        Some(self.patch(&others))
    }

    fn patch<T: serde::Serialize>(&self, entries: &[T]) -> Value {
        let entries = if entries.is_empty() {
            Value::Null
        } else {
            json!(entries)
        };
        json!({
            "metadata": { "resourceVersion": self.metadata().resource_version },
            "status": { "preservations": entries },
        })
    }
}

/// The new list, and the new observed maximum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SweptList {
    pub entries: Vec<PreservationEntry>,
    pub observed: Option<i32>,
}

/// Removes deleted machines from the list. After the maximum was lowered, marks surplus automatic preservations for
/// release, the oldest machines first.
pub(crate) fn sweep(list: OwnersList<'_>, observed: Option<i32>, uids: &BTreeSet<&str>) -> SweptList {
    let mut entries: Vec<PreservationEntry> = list
        .entries()
        .iter()
        .filter(|entry| uids.contains(entry.uid.as_str()))
        .cloned()
        .collect();
    let maximum = list.specified().unwrap_or_default().max(0);
    if observed.is_some_and(|observed| maximum < observed) {
        release_surplus(&mut entries, list.maximum());
    }
    let used = list.specified().is_some() || observed.is_some();
    SweptList {
        entries,
        observed: used.then_some(maximum),
    }
}

fn release_surplus(entries: &mut [PreservationEntry], maximum: usize) {
    let kept = entries.iter().filter(|entry| !entry.released).count();
    let age = |entry: &PreservationEntry| {
        let created: Option<&Time> = entry.created.as_ref();
        (created.map(|time| time.0), entry.name.clone())
    };
    let mut automatic: Vec<&mut PreservationEntry> = entries
        .iter_mut()
        .filter(|entry| entry.by == PreservedBy::Auto && !entry.released)
        .collect();
    automatic.sort_by_key(|entry| age(entry));
    for entry in automatic.into_iter().take(kept.saturating_sub(maximum)) {
        entry.released = true;
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    fn entry(name: &str, by: PreservedBy) -> PreservationEntry {
        // The last machine by name is the oldest.
        let age = 1_000 - i64::from(name.bytes().last().unwrap_or_default());
        PreservationEntry {
            uid: format!("uid-{name}"),
            name: name.to_owned(),
            by,
            created: Some(Time(Timestamp::from_second(age).unwrap())),
            released: false,
        }
    }

    fn set(maximum: Option<i32>, entries: &[(&str, PreservedBy)]) -> MachineSet {
        let mut set = MachineSet::default();
        set.metadata.resource_version = Some("7".to_owned());
        set.spec.auto_preserve_failed_max = maximum;
        set.status.preservations = entries.iter().map(|(name, by)| entry(name, by.clone())).collect();
        set
    }

    const AUTO: PreservedBy = PreservedBy::Auto;
    const REQUESTED: PreservedBy = PreservedBy::Node;

    #[rstest]
    #[case::room(1, &[], AUTO, "entered")]
    #[case::none_allowed(0, &[], AUTO, "Full")]
    #[case::negative(-1, &[], AUTO, "Full")]
    #[case::full(1, &[("a", AUTO)], AUTO, "Full")]
    #[case::full_by_requested_ones(1, &[("a", REQUESTED)], AUTO, "Full")]
    #[case::requested(0, &[], REQUESTED, "entered")]
    #[case::requested_and_full(1, &[("a", AUTO)], REQUESTED, "entered")]
    #[case::already_entered(1, &[("m", AUTO)], AUTO, "known")]
    #[case::entered_and_the_request_is_withdrawn(1, &[("m", REQUESTED)], AUTO, "entered")]
    #[case::entered_and_the_request_is_withdrawn_but_full(1, &[("m", REQUESTED), ("a", AUTO)], AUTO, "Full")]
    #[case::requested_later(1, &[("m", AUTO)], REQUESTED, "entered")]
    fn the_maximum_applies_to_automatic_preservations(
        #[case] maximum: i32,
        #[case] entries: &[(&str, PreservedBy)],
        #[case] by: PreservedBy,
        #[case] expected: &str,
    ) {
        let set = set(Some(maximum), entries);
        let claim = OwnersList::Set(&set).claim(&entry("m", by), false);
        match (claim, expected) {
            (Claim::Entered, "known") => {}
            (Claim::Refused(admission), expected) => assert_eq!(format!("{admission:?}"), expected),
            (Claim::Enter(patch), "entered") => {
                assert_eq!(patch["metadata"]["resourceVersion"], "7");
                let others = entries.iter().filter(|(name, _)| *name != "m").count();
                assert_eq!(patch["status"]["preservations"].as_array().unwrap().len(), others + 1);
            }
            (claim, expected) => panic!("{claim:?} is not {expected}"),
        }
    }

    #[test]
    fn a_repeated_preservation_ignores_the_maximum() {
        let full = set(Some(1), &[("a", AUTO)]);
        let claim = OwnersList::Set(&full).claim(&entry("m", AUTO), true);
        assert!(matches!(claim, Claim::Enter(_)), "{claim:?}");
    }

    #[rstest]
    #[case::never_rolled("", false, false)]
    #[case::same(&template_hash(&<_>::default()), false, false)]
    #[case::another("1", false, true)]
    #[case::paused("1", true, false)]
    fn claims_are_refused_during_a_rollout(#[case] rolled_out: &str, #[case] paused: bool, #[case] refused: bool) {
        let mut deployment = MachineDeployment::default();
        deployment.spec.auto_preserve_failed_max = Some(5);
        deployment.spec.paused = paused;
        deployment.status.rolled_out = rolled_out.to_owned();
        for by in [AUTO, REQUESTED] {
            let claim = OwnersList::Deployment(&deployment).claim(&entry("m", by), true);
            assert_eq!(claim == Claim::Refused(Admission::RollingOut), refused);
        }
    }

    #[rstest]
    #[case::rolling("another", true)]
    #[case::never_rolled_out("", false)]
    fn a_view_has_the_state_of_the_list(#[case] rolled_out: &str, #[case] rolling: bool) {
        let mut deployment = MachineDeployment::default();
        deployment.spec.auto_preserve_failed_machine_max = Some(2);
        deployment.status.rolled_out = rolled_out.to_owned();
        deployment.status.preservations = vec![entry("a", AUTO), entry("b", REQUESTED)];
        let view = OwnersList::Deployment(&deployment).view_of("uid-a");
        let known = ListView::Known {
            maximum: 2,
            rolling,
            deployed: true,
            entry: Some(entry("a", AUTO)),
            others: BTreeSet::from(["b".to_owned()]),
        };
        assert_eq!(view, known);
        assert_eq!((view.is_rolling(), view.prefers("b")), (rolling, false));
        let other = OwnersList::Deployment(&deployment).view_of("uid-c");
        assert!(other.prefers("b") && !other.prefers("d"));
        let alone = OwnersList::Set(&set(None, &[])).view_of("uid-a");
        assert!(!alone.may_roll() && view.may_roll());
    }

    #[test]
    fn leaving_removes_the_entry() {
        let two = set(Some(2), &[("a", AUTO), ("b", AUTO)]);
        let patch = OwnersList::Set(&two).leave("uid-a").unwrap();
        assert_eq!(patch["status"]["preservations"][0]["name"], "b");
        assert_eq!(OwnersList::Set(&two).leave("uid-c"), None);
        let one = set(Some(2), &[("a", AUTO)]);
        let patch = OwnersList::Set(&one).leave("uid-a").unwrap();
        assert_eq!(patch["status"]["preservations"], Value::Null);
    }

    #[rstest]
    #[case::not_used(None, None, &[], "", None)]
    #[case::first_seen(Some(1), None, &[("a", AUTO), ("b", AUTO)], "", Some(1))]
    #[case::lowered(Some(1), Some(3), &[("c", AUTO), ("a", AUTO), ("b", AUTO)], "b c", Some(1))]
    #[case::lowered_with_room(Some(2), Some(3), &[("a", AUTO)], "", Some(2))]
    #[case::requested_ones_stay(Some(0), Some(2), &[("a", REQUESTED), ("b", AUTO)], "b", Some(0))]
    #[case::above_for_another_reason(Some(1), Some(1), &[("a", REQUESTED), ("b", AUTO)], "", Some(1))]
    #[case::raised(Some(3), Some(1), &[("a", AUTO)], "", Some(3))]
    #[case::removed(None, Some(2), &[("a", AUTO)], "a", Some(0))]
    fn a_lowered_maximum_releases_the_oldest_automatic_preservations(
        #[case] maximum: Option<i32>,
        #[case] observed: Option<i32>,
        #[case] entries: &[(&str, PreservedBy)],
        #[case] released: &str,
        #[case] expected_maximum: Option<i32>,
    ) {
        let set = set(maximum, entries);
        let uids: BTreeSet<&str> = set
            .status
            .preservations
            .iter()
            .map(|entry| entry.uid.as_str())
            .collect();
        let swept = sweep(OwnersList::Set(&set), observed, &uids);
        let mut names: Vec<_> = swept
            .entries
            .iter()
            .filter(|entry| entry.released)
            .map(|entry| &*entry.name)
            .collect();
        names.sort_unstable();
        assert_eq!((names.join(" ").as_str(), swept.observed), (released, expected_maximum));
    }

    #[test]
    fn deleted_machines_are_removed_from_the_list() {
        let set = set(Some(2), &[("a", AUTO), ("b", AUTO)]);
        let swept = sweep(OwnersList::Set(&set), Some(2), &BTreeSet::from(["uid-b"]));
        assert_eq!(swept.entries.len(), 1);
    }
}
