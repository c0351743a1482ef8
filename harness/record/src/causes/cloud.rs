//! What happened to each VM: calls that changed it, its states and its kubelet.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::model::{Link, Micros, Verb};

/// The calls that change a VM.
const CHANGING: [&str; 3] = ["CreateMachine", "DeleteMachine", "StopMachine"];

/// The history of all VMs, kubelets and faults.
pub(super) struct CloudHistory<'a> {
    /// The call that changed a VM, by the id of the VM's event.
    calls_of_vms: BTreeMap<u64, u64>,
    /// The events of VMs and kubelets by machine.
    by_machine: BTreeMap<&'a str, Vec<&'a Draft>>,
    /// The events of faults by actor.
    faults: BTreeMap<&'a str, Vec<&'a Draft>>,
    /// The zone of each machine.
    zones: BTreeMap<&'a str, &'a str>,
}

impl<'a> CloudHistory<'a> {
    pub(super) fn of(points: &'a [Draft]) -> Self {
        let mut history = Self {
            calls_of_vms: calls_of_vms(points),
            by_machine: BTreeMap::new(),
            faults: BTreeMap::new(),
            zones: BTreeMap::new(),
        };
        for draft in points {
            match (draft.point.verb, draft.related.first()) {
                (Verb::Vm | Verb::Kubelet, Some((_, machine))) => {
                    history.by_machine.entry(machine).or_default().push(draft);
                    if let Some((_, zone)) = draft.related.iter().find(|(kind, _)| *kind == "Zone") {
                        history.zones.insert(machine, zone);
                    }
                }
                (Verb::Fault, _) => history.faults.entry(&draft.point.actor).or_default().push(draft),
                _ => {}
            }
        }
        history
    }

    /// The id of the call that changed a VM, by the id of the VM's event.
    pub(super) fn call_of_vm(&self, id: u64) -> Option<u64> {
        self.calls_of_vms.get(&id).copied()
    }

    /// The zone of the VM or the kubelet of an event.
    pub(super) fn zone_of(&self, draft: &Draft) -> Option<&'a str> {
        let (_, machine) = draft.related.first()?;
        self.zones.get(machine.as_str()).copied()
    }

    /// The previous event of the same VM; of a kubelet, also the previous one of its VM.
    pub(super) fn before(&self, draft: &Draft) -> Option<(Link, u64)> {
        let (_, machine) = draft.related.first()?;
        let of_machine = self.by_machine.get(machine.as_str())?;
        let mut earlier = of_machine.iter().filter(|other| other.id < draft.id);
        let found = match draft.point.verb {
            Verb::Vm => earlier.rfind(|other| other.point.actor == draft.point.actor),
            _ => earlier.next_back(),
        }?;
        let link = match found.point.actor == draft.point.actor {
            true => Link::Own,
            false => Link::Before,
        };
        Some((link, found.id))
    }

    /// The event of a VM or a kubelet at the time at which the kubelets wrote its Node.
    pub(super) fn of_kubelet(&self, draft: &Draft) -> Option<u64> {
        let is_node = draft.key.as_ref().is_some_and(|key| key.kind == "Node");
        let (_, machine) = draft.related.iter().find(|(kind, _)| *kind == "Machine" && is_node)?;
        let of_machine = self.by_machine.get(machine.as_str())?;
        let mut earlier = of_machine.iter().filter(|other| other.id < draft.id);
        let is_new = |other: &&&Draft| draft.previous.is_none() || other.point.at == draft.point.at;
        earlier.next_back().filter(is_new).map(|other| other.id)
    }

    /// The begin of the fault whose effect an event is.
    pub(super) fn begin_of_fault(&self, draft: &Draft) -> Option<u64> {
        let of_fault = self.faults.get(draft.point.actor.as_str())?;
        let is_earlier = |other: &&&Draft| (other.point.at, other.id) < (draft.point.at, draft.id);
        let earlier = of_fault.iter().filter(is_earlier);
        earlier
            .min_by_key(|other| (other.point.at, other.id))
            .map(|other| other.id)
    }
}

/// The call that changed a VM: the ledger records it at the same moment, after the VM.
fn calls_of_vms(points: &[Draft]) -> BTreeMap<u64, u64> {
    let mut calls: BTreeMap<(Micros, &str), Vec<u64>> = BTreeMap::new();
    for draft in points {
        if draft.point.call.as_deref().is_some_and(|call| CHANGING.contains(&call)) {
            for (_, machine) in &draft.related {
                calls.entry((draft.point.at, machine)).or_default().push(draft.id);
            }
        }
    }
    let vms = points.iter().filter(|draft| draft.point.verb == Verb::Vm);
    let call = |draft: &Draft| {
        let (_, machine) = draft.related.first()?;
        let of_machine = calls.get(&(draft.point.at, machine.as_str()))?;
        Some((draft.id, *of_machine.iter().find(|call| **call > draft.id)?))
    };
    vms.filter_map(call).collect()
}
