//! Injects and removes faults of kubelets, at once or by schedule, and sets conditions of Nodes.

use std::time::Duration;

use jiff::Timestamp;

use super::kubelet::check_condition;
use super::{
    Caller, Cloud, CommandError, FaultKind, KubeletFault, NodeCondition, Record, RecordKind, Reference, Vm, VmState,
    later,
};

/// A scheduled event of a VM's kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Planned {
    /// A fault ends.
    End(FaultKind),
    /// The fault of the configuration's rule with this index begins.
    Begin(usize),
    /// The cloud preempts the VM.
    Preempt,
}

const LIVE: [VmState; 3] = [VmState::Pending, VmState::Running, VmState::Stopped];
const NEEDED: &str = "pending, running or stopped";

impl Cloud {
    /// Injects a fault into a VM's kubelet, for a duration or until it is removed.
    ///
    /// # Errors
    /// The fault is invalid, no single VM matches, or it is deleted.
    pub fn break_kubelet(
        &mut self,
        reference: &Reference,
        fault: KubeletFault,
        lasts: Option<Duration>,
        now: Timestamp,
    ) -> Result<&Vm, CommandError> {
        fault
            .check()
            .map_err(|error| CommandError::Unusable(error.to_string()))?;
        if lasts.is_some_and(|lasts| lasts.is_zero()) {
            return Err(CommandError::Unusable(
                "lasts must be longer than zero; leave it out for a fault without end".to_owned(),
            ));
        }
        let ordinal = self.command(reference, "BreakKubelet", &LIVE, NEEDED, now)?;
        self.break_now(ordinal, fault, lasts, now);
        self.say(ordinal, Caller::Control, "KubeletBroken", &fault.to_string(), now);
        self.answer(ordinal, reference)
    }

    /// Removes the faults of these kinds from a VM's kubelet; without kinds, all faults.
    ///
    /// # Errors
    /// No single VM matches, or it is deleted.
    pub fn restore_kubelet(
        &mut self,
        reference: &Reference,
        kinds: &[FaultKind],
        now: Timestamp,
    ) -> Result<&Vm, CommandError> {
        let ordinal = self.command(reference, "MendKubelet", &LIVE, NEEDED, now)?;
        let all: Vec<FaultKind> = match self.vms.get(&ordinal) {
            Some(vm) if kinds.is_empty() => vm.kubelet.list().into_iter().map(KubeletFault::kind).collect(),
            _ => kinds.to_vec(),
        };
        for kind in all {
            self.restore_now(ordinal, kind);
        }
        self.answer(ordinal, reference)
    }

    /// Sets a condition of a VM's Node, as its kubelet or node-problem-detector would. The kubelet writes it, so it is
    /// not visible while the kubelet is down.
    ///
    /// # Errors
    /// The condition is invalid, no single VM matches, or it is deleted.
    pub fn set_node_condition(
        &mut self,
        reference: &Reference,
        kind: &str,
        condition: NodeCondition,
        now: Timestamp,
    ) -> Result<&Vm, CommandError> {
        check_condition(kind, &condition).map_err(|error| CommandError::Unusable(error.to_string()))?;
        let ordinal = self.command(reference, "SetNodeCondition", &LIVE, NEEDED, now)?;
        let text = format!("{kind} is {}", condition.status);
        if let Some(vm) = self.vms.get_mut(&ordinal) {
            vm.conditions.insert(kind.to_owned(), Some(condition));
        }
        self.say(ordinal, Caller::Control, "NodeCondition", &text, now);
        self.answer(ordinal, reference)
    }

    /// Resets a condition of a VM's Node to that of a healthy kubelet; conditions that kubelets do not have are
    /// removed.
    ///
    /// # Errors
    /// The condition was not set, no single VM matches, or it is deleted.
    pub fn clear_node_condition(
        &mut self,
        reference: &Reference,
        kind: &str,
        now: Timestamp,
    ) -> Result<&Vm, CommandError> {
        let ordinal = self.command(reference, "ClearNodeCondition", &LIVE, NEEDED, now)?;
        let vm = self.vms.get_mut(&ordinal);
        let Some(set) = vm
            .and_then(|vm| vm.conditions.get_mut(kind))
            .filter(|set| set.is_some())
        else {
            return Err(CommandError::Unusable(format!(
                "type: no condition {kind:?} was set; set one first, or list the kubelets with their conditions"
            )));
        };
        *set = None;
        self.say(
            ordinal,
            Caller::Control,
            "NodeCondition",
            &format!("{kind} is cleared"),
            now,
        );
        self.answer(ordinal, reference)
    }

    pub(super) fn break_now(&mut self, ordinal: u64, fault: KubeletFault, lasts: Option<Duration>, now: Timestamp) {
        self.forget_end(ordinal, fault.kind());
        let Some(vm) = self.vms.get_mut(&ordinal) else { return };
        vm.kubelet.set(fault, now);
        if let Some(lasts) = lasts {
            let end = later(now, lasts);
            vm.fault_ends.insert(fault.kind(), end);
            self.planned.insert((end, ordinal, Planned::End(fault.kind())));
        }
    }

    pub(super) fn restore_now(&mut self, ordinal: u64, kind: FaultKind) {
        self.forget_end(ordinal, kind);
        if let Some(vm) = self.vms.get_mut(&ordinal) {
            vm.kubelet.remove(kind);
        }
    }

    fn forget_end(&mut self, ordinal: u64, kind: FaultKind) {
        if let Some(end) = self.vms.get_mut(&ordinal).and_then(|vm| vm.fault_ends.remove(&kind)) {
            self.planned.remove(&(end, ordinal, Planned::End(kind)));
        }
    }

    /// Schedules the configuration's faults after the first boot of a VM.
    pub(super) fn plan_faults(&mut self, ordinal: u64, now: Timestamp) {
        let Some(vm) = self.vms.get(&ordinal) else { return };
        let machine = vm.owner.key();
        let matching = self.settings.kubelet_faults.iter().enumerate();
        let begins = matching
            .filter(|(_, rule)| rule.matches(&machine, &vm.zone))
            .map(|(index, rule)| (later(now, rule.after), ordinal, Planned::Begin(index)));
        self.planned.extend(begins);
    }

    /// Performs a scheduled event if the VM still exists.
    pub(super) fn perform_scheduled(&mut self, ordinal: u64, planned: Planned, now: Timestamp) {
        if !self.vms.get(&ordinal).is_some_and(|vm| LIVE.contains(&vm.state)) {
            return;
        }
        match planned {
            Planned::End(kind) => {
                self.restore_now(ordinal, kind);
                self.say(ordinal, Caller::Cloud, "KubeletMended", "the fault has ended", now);
            }
            Planned::Preempt => {
                if self.vms.get(&ordinal).is_some_and(|vm| vm.preempted == Some(now)) {
                    self.preempt_now(ordinal, now);
                }
            }
            Planned::Begin(index) => {
                let Some(rule) = self.settings.kubelet_faults.get(index) else {
                    return;
                };
                let (fault, lasts) = (rule.fault, rule.lasts);
                self.break_now(ordinal, fault, lasts, now);
                self.say(ordinal, Caller::Cloud, "KubeletBroken", &fault.to_string(), now);
            }
        }
    }

    pub(super) fn say(&mut self, ordinal: u64, caller: Caller, operation: &'static str, message: &str, now: Timestamp) {
        if let Some(vm) = self.vms.get(&ordinal) {
            let record = Record::new(RecordKind::Kubelet, caller, operation, now).about(vm);
            self.log.append(record.saying(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::Seed;
    use jiff::SignedDuration;

    use super::*;
    use crate::Config;
    use crate::model::{Availability, test_request as request};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
    }

    fn a() -> Reference {
        Reference::Machine("a".to_owned())
    }

    fn cloud(yaml: &str) -> Cloud {
        let mut cloud = Cloud::new(
            Config::from_yaml("test", yaml).unwrap().settings().cloud,
            Seed::new(1),
            at(0),
        );
        cloud.create_machine(&request("a"), at(0)).result.unwrap();
        cloud.advance(at(2));
        cloud
    }

    fn availability(cloud: &mut Cloud, seconds: i64) -> Availability {
        cloud.advance(at(seconds));
        cloud.find(&a()).unwrap().kubelet.availability(at(seconds)).0
    }

    #[test]
    fn a_configured_fault_begins_after_the_first_boot_and_ends_on_schedule() {
        let mut cloud = cloud("kubelet: {faults: [{machine: a, mode: frozen, after: 1m, lasts: 30s}]}");
        assert_eq!(availability(&mut cloud, 61), Availability::Up);
        assert_eq!(cloud.next_deadline(), Some(at(62)));
        assert_eq!(availability(&mut cloud, 62), Availability::Frozen);
        assert_eq!(availability(&mut cloud, 91), Availability::Frozen);
        assert_eq!(availability(&mut cloud, 92), Availability::Up);
        cloud.reboot_vm(&a(), at(100)).unwrap();
        assert_eq!(
            cloud.next_deadline(),
            None,
            "it does not begin again with the next boot"
        );
    }

    #[test]
    fn a_fault_that_replaces_another_does_not_end_with_it() {
        let mut cloud = cloud("{}");
        let minute = Some(Duration::from_secs(60));
        cloud.break_kubelet(&a(), KubeletFault::Frozen, minute, at(10)).unwrap();
        cloud
            .break_kubelet(&a(), KubeletFault::Partitioned, None, at(20))
            .unwrap();
        assert_eq!(availability(&mut cloud, 1000), Availability::Partitioned);
        cloud.restore_kubelet(&a(), &[], at(1001)).unwrap();
        assert_eq!(availability(&mut cloud, 1001), Availability::Up);
    }

    #[test]
    fn invalid_commands_change_nothing_and_name_the_error() {
        let mut cloud = cloud("{}");
        let last = cloud.log().last();
        let zero = Some(Duration::ZERO);
        let errors = [
            cloud.break_kubelet(&a(), KubeletFault::Zombie, zero, at(3)).map(drop),
            cloud
                .break_kubelet(&a(), KubeletFault::Slow(Duration::ZERO), None, at(3))
                .map(drop),
            cloud
                .set_node_condition(
                    &a(),
                    "Disk Pressure",
                    NodeCondition {
                        status: "True".to_owned(),
                        reason: String::new(),
                        message: String::new(),
                    },
                    at(3),
                )
                .map(drop),
            cloud
                .set_node_condition(
                    &a(),
                    "DiskPressure",
                    NodeCondition {
                        status: "true".to_owned(),
                        reason: String::new(),
                        message: String::new(),
                    },
                    at(3),
                )
                .map(drop),
        ];
        for error in errors {
            assert!(matches!(error, Err(CommandError::Unusable(_))), "{error:?}");
        }
        assert_eq!(cloud.log().last(), last);
        let error = cloud.clear_node_condition(&a(), "KernelDeadlock", at(3)).unwrap_err();
        assert!(
            error.to_string().contains("no condition \"KernelDeadlock\" was set"),
            "{error}"
        );
    }

    #[test]
    fn scheduled_events_skip_deleted_vms() {
        let mut cloud = cloud("kubelet: {faults: [{mode: stopped, after: 1m}]}");
        cloud.delete_vm(&a(), at(10)).unwrap();
        let last = cloud.log().last();
        cloud.advance(at(100));
        assert_eq!(cloud.log().last(), last);
    }
}
