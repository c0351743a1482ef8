//! The append-only log of all calls, commands and transitions: audit log and event stream in one.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::cloud::Code;
use serde::{Deserialize, Serialize};

use super::vm::{Vm, VmState};
use crate::glob;

/// How many records are kept; older ones are forgotten.
const KEPT: usize = 1_000_000;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordKind {
    /// A driver call and its outcome.
    Call,
    /// A person or a test changed something.
    Command,
    /// A VM changed its state.
    Transition,
    /// A simulated kubelet started, joined, was refused or stopped.
    Kubelet,
    /// A disk or a network interface was made or removed, or a zone came back.
    Part,
}

/// Who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caller {
    /// A machine controller through the driver contract.
    Driver,
    /// A person or a test through the control contract.
    Control,
    /// The cloud by itself, in the course of time.
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

/// One line of the log. User data and credentials never stand in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// 1, 2, 3, ... without gaps.
    pub sequence: u64,
    /// When it happened; never before its predecessor.
    pub time: Timestamp,
    /// What it is about.
    pub kind: RecordKind,
    /// Who did it.
    pub caller: Caller,
    /// What was done: `CreateMachine`, `KillVm`, `Running`, `Joined`, ...
    pub operation: Cow<'static, str>,
    /// `NAMESPACE/NAME` of the machine; empty when it is about none.
    pub machine: String,
    /// The VM's id; empty when it is about none.
    pub vm: String,
    /// The VM's provider id; empty when it is about none.
    pub provider_id: String,
    /// The VM's state afterwards.
    pub state: Option<VmState>,
    /// Of a transition: the state before.
    pub previous: Option<VmState>,
    /// Of a call: what was answered.
    pub code: Option<Code>,
    /// For people.
    pub message: String,
    /// Of a call: by how much the reply is delayed.
    pub latency: Duration,
    /// Of a call: the fault rule that fired.
    pub fault: Option<String>,
    /// Of a call in process: who called; empty where that is not known.
    pub client: String,
}

impl Record {
    /// A record about no VM; the log gives it its number.
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

    /// The record, about that VM.
    pub(super) fn about(mut self, vm: &Vm) -> Self {
        self.machine = vm.owner.key();
        self.vm.clone_from(&vm.id);
        self.provider_id.clone_from(&vm.provider_id);
        self.state = Some(vm.state);
        self
    }

    /// The record with a text for people.
    pub(super) fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }
}

/// The records after some sequence number are no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("records before {first} are no longer kept; begin after {}", .first - 1)]
pub struct Forgotten {
    /// The first record that is still there.
    pub first: u64,
}

/// The log.
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

    /// A log that goes on after these records.
    pub(super) fn restored(records: Vec<Record>, last: u64) -> Self {
        let mut records = VecDeque::from(records);
        // What was said of steps that were lost with their process never happened.
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

    /// The last record's number; 0 when there is none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The records after `after`, oldest first.
    ///
    /// # Errors
    /// When some of them are no longer kept.
    pub fn after(&self, after: u64) -> Result<impl Iterator<Item = &Record>, Forgotten> {
        let first = self.last + 1 - self.records.len() as u64;
        if after + 1 < first {
            return Err(Forgotten { first });
        }
        Ok(self.records.iter().skip((after + 1 - first) as usize))
    }

    /// At most `limit` records after `after` that are about a machine that `machine` (a glob)
    /// matches, and whether there are more.
    ///
    /// # Errors
    /// When some of them are no longer kept.
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
    fn a_page_can_be_about_one_machine() {
        let (page, more) = log(20).page(0, 5, "machine-7").unwrap();
        assert_eq!(page.iter().map(|record| record.sequence).collect::<Vec<_>>(), [8]);
        assert!(!more);
    }

    #[test]
    fn what_is_forgotten_is_said() {
        let mut log = log(5);
        log.records.pop_front();
        log.records.pop_front();
        assert_eq!(log.after(1).map(Iterator::count), Err(Forgotten { first: 3 }));
        assert_eq!(log.after(2).map(Iterator::count), Ok(3));
    }
}
