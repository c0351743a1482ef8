//! Contradictions between the rows of a state. A cloud does not start with them, and a repair cannot resolve them,
//! because nothing tells which of two rows is right.

use std::collections::BTreeMap;

use super::Snapshot;
use crate::model::{Disk, Nic, Volume};

/// Why a state is not a valid ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Rows contradict each other.
    #[error("the ledger contradicts itself: {0}; restore its folder from a copy, or start with an empty one")]
    Contradiction(String),
}

/// The maximum of all numbers that the cloud increases: no cloud reaches it, and additions to it do not overflow.
pub const MAX_NUMBER: u64 = u64::MAX / 2;

impl Snapshot {
    /// Checks that the rows do not contradict each other.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), StateError> {
        let found = self.excess().or_else(|| self.contradiction_of_vms()).or_else(|| {
            misplaced("disk", &self.disks, |disk: &Disk| &disk.id)
                .or_else(|| misplaced("network interface", &self.nics, |nic: &Nic| &nic.id))
                .or_else(|| misplaced("volume", &self.volumes, |volume: &Volume| &volume.id))
        });
        found.map_or(Ok(()), |text| Err(StateError::Contradiction(text)))
    }

    /// The first number above the maximum.
    fn excess(&self) -> Option<String> {
        let small = &self.small;
        let own = [
            ("the number of the log's last record", self.log),
            ("the number of the last VM", small.last_ordinal),
            ("the number of added fault rules", small.fault_ids),
            ("the number of findings", small.remembered.more),
        ];
        let faults = small.faults.iter().flat_map(|fault| [fault.seen, fault.hits]);
        let outages = small.outages.iter().flat_map(|outage| [outage.seen, outage.hits]);
        let all = own
            .into_iter()
            .chain(faults.map(|count| ("a counter of a fault rule", count)))
            .chain(outages.map(|count| ("a counter of a failed zone", count)))
            .chain(
                self.created_counts
                    .values()
                    .map(|count| ("the number of objects with a name", *count)),
            )
            .chain(self.vms.values().map(|vm| ("the number of boots of a VM", vm.boots)));
        let (what, number) = all.into_iter().find(|(_, number)| *number > MAX_NUMBER)?;
        Some(format!("{what} is {number}, and {MAX_NUMBER} is the maximum"))
    }

    fn contradiction_of_vms(&self) -> Option<String> {
        let last = self.small.last_ordinal;
        let mut numbers = BTreeMap::new();
        for (ordinal, vm) in &self.vms {
            let id = &vm.id;
            if vm.ordinal != *ordinal {
                return Some(format!(
                    "the row of VM number {ordinal} contains VM {id}, which has the number {}",
                    vm.ordinal
                ));
            }
            if *ordinal > last {
                return Some(format!(
                    "VM {id} has the number {ordinal}, and the last number that was assigned is {last}"
                ));
            }
            if let Some(other) = numbers.insert(id, ordinal) {
                return Some(format!(
                    "the VMs with the numbers {other} and {ordinal} have the same id, {id}"
                ));
            }
            let expected = format!("fakecloud:///{}/{id}", vm.zone);
            if vm.provider_id != expected {
                return Some(format!(
                    "VM {id} of the zone {} has the provider id {}, not {expected}",
                    vm.zone, vm.provider_id
                ));
            }
        }
        None
    }
}

/// The first row whose key is not its id.
fn misplaced<T>(kind: &str, rows: &BTreeMap<String, T>, id: impl Fn(&T) -> &String) -> Option<String> {
    let (key, row) = rows.iter().find(|(key, row)| *key != id(row))?;
    Some(format!("the row of {kind} {key} contains {kind} {}", id(row)))
}
