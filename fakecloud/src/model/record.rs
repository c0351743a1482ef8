//! The append-only log of calls, commands and transitions: audit log and event stream.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::cloud::Code;
use serde::{Deserialize, Serialize};

use super::vm::{Vm, VmState};
use crate::glob;

/// Number of records that are kept; older ones are dropped.
const KEPT: usize = 1_000_000;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordKind {
    /// A driver call and its outcome.
    Call,
    /// A user or a test changed something.
    Command,
    /// A VM changed its state.
    Transition,
    /// A simulated kubelet started, joined, was rejected or stopped.
    Kubelet,
    /// A disk or a network interface was created or removed, or a zone recovered.
    Part,
}

/// What caused a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caller {
    /// A machine controller through the driver contract.
    Driver,
    /// A user or a test through the control contract.
    Control,
    /// The cloud itself, by schedule.
    Cloud,
    /// A simulated kubelet.
    Kubelet,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Driver => "driver",
            Self::Control => "control",
            Self::Cloud => "cloud",
            Self::Kubelet => "kubelet",
        })
    }
}

/// One record of the log. It never contains user data or credentials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// 1, 2, 3, ... without gaps: the sequence number.
    pub sequence: u64,
    /// Time of the event; never before that of the previous record.
    pub time: Timestamp,
    /// Kind of the record.
    pub kind: RecordKind,
    /// What caused it.
    pub caller: Caller,
    /// Name of the call, command or event: `CreateMachine`, `KillVm`, `Running`, `Joined`, ...
    pub operation: Cow<'static, str>,
    /// `NAMESPACE/NAME` of the machine; empty: none.
    pub machine: String,
    /// The VM's id; empty: none.
    pub vm: String,
    /// The VM's provider ID; empty: none.
    pub provider_id: String,
    /// The VM's state after the event.
    pub state: Option<VmState>,
    /// The previous state, for a transition.
    pub previous: Option<VmState>,
    /// The code of the reply, for a call.
    pub code: Option<Code>,
    /// A human-readable message.
    pub message: String,
    /// The delay of the reply, for a call.
    pub latency: Duration,
    /// The fault rule that hit, for a call.
    pub fault: Option<String>,
    /// The name that the client gives, for a call; empty: none.
    pub client: String,
}

impl Record {
    /// A record without a VM; the log assigns its number.
    pub(super) fn new(kind: RecordKind, caller: Caller, operation: &'static str, time: Timestamp) -> Self {
        Self {
            sequence: 0,
            time,
            kind,
            caller,
            operation: Cow::Borrowed(operation),
            machine: String::new(),
            vm: String::new(),
            provider_id: String::new(),
            state: None,
            previous: None,
            code: None,
            message: String::new(),
            latency: Duration::ZERO,
            fault: None,
            client: String::new(),
        }
    }

    /// Adds the VM to the record.
    pub(super) fn about(mut self, vm: &Vm) -> Self {
        self.machine = vm.owner.key();
        self.vm.clone_from(&vm.id);
        self.provider_id.clone_from(&vm.provider_id);
        self.state = Some(vm.state);
        self
    }

    /// Adds a message to the record.
    pub(super) fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }
}

/// The records after some sequence number are no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("records before {first} are no longer kept; begin after {}", .first - 1)]
pub struct Forgotten {
    /// The first record that is kept.
    pub first: u64,
}

/// The log of a cloud.
#[derive(Debug, Default)]
pub struct Log {
    records: VecDeque<Record>,
    last: u64,
}

impl Log {
    pub(super) fn append(&mut self, mut record: Record) {
        self.last += 1;
        record.sequence = self.last;
        self.records.push_back(record);
        if self.records.len() > KEPT {
            self.records.pop_front();
        }
    }

    /// A log that continues after these records.
    pub(super) fn restored(records: Vec<Record>, last: u64) -> Self {
        let mut records = VecDeque::from(records);
        // Records of steps that were lost with their process are invalid.
        while records.back().is_some_and(|record| record.sequence > last) {
            records.pop_back();
        }
        if records.back().is_none_or(|record| record.sequence != last) {
            records.clear();
        }
        while records.len() > KEPT {
            records.pop_front();
        }
        Self { records, last }
    }

    /// The last record's number; 0: there is none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The records after `after`, oldest first.
    ///
    /// # Errors
    /// Some of them are no longer kept.
    pub fn after(&self, after: u64) -> Result<impl Iterator<Item = &Record>, Forgotten> {
        let first = self.last + 1 - self.records.len() as u64;
        if after + 1 < first {
            return Err(Forgotten { first });
        }
        Ok(self.records.iter().skip((after + 1 - first) as usize))
    }

    /// At most `limit` records after `after` whose machine matches `machine` (a glob), and whether there are more.
    ///
    /// # Errors
    /// Some of them are no longer kept.
    pub fn page(&self, after: u64, limit: usize, machine: &str) -> Result<(Vec<Record>, bool), Forgotten> {
        let wanted = |record: &&Record| machine.is_empty() || glob::matches_machine(machine, &record.machine);
        let mut found: Vec<Record> = self.after(after)?.filter(wanted).take(limit + 1).cloned().collect();
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(count: u64) -> Log {
        let mut log = Log::default();
        for index in 0..count {
            let mut record = Record::new(RecordKind::Command, Caller::Control, "Test", Timestamp::UNIX_EPOCH);
            record.machine = format!("default/machine-{index}");
            log.append(record);
        }
        log
    }

    #[test]
    fn pages_cover_the_log_without_gap_or_overlap() {
        let log = log(7);
        let mut after = 0;
        let mut sequences = Vec::new();
        loop {
            let (page, more) = log.page(after, 3, "").unwrap();
            sequences.extend(page.iter().map(|record| record.sequence));
            after = *sequences.last().unwrap();
            if !more {
                break;
            }
        }
        assert_eq!(sequences, (1..=7).collect::<Vec<_>>());
        assert_eq!(log.page(7, 3, "").unwrap(), (Vec::new(), false));
        assert_eq!(log.page(99, 3, "").unwrap(), (Vec::new(), false));
    }

    #[test]
    fn a_page_can_be_limited_to_one_machine() {
        let (page, more) = log(20).page(0, 5, "machine-7").unwrap();
        assert_eq!(page.iter().map(|record| record.sequence).collect::<Vec<_>>(), [8]);
        assert!(!more);
    }

    #[test]
    fn reading_dropped_records_is_an_error() {
        let mut log = log(5);
        log.records.pop_front();
        log.records.pop_front();
        assert_eq!(log.after(1).map(Iterator::count), Err(Forgotten { first: 3 }));
        assert_eq!(log.after(2).map(Iterator::count), Ok(3));
    }
}
