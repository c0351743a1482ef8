//! What happens to a kubelet.

use std::time::Duration;

use fakecloud_api::DurationText;
use mcm_api::GoDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shortest cycle of a flapping kubelet.
const SHORTEST_CYCLE: Duration = Duration::from_secs(1);
/// The largest offset of a clock.
const LARGEST_OFFSET: Duration = Duration::from_hours(24 * 366);

/// An action on a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KubeletAction {
    /// It stops; the VM continues to run.
    Stop,
    /// It starts again.
    Start,
    /// The network cuts it off from the API server; the containers and the VM continue to run.
    Partition,
    /// The network connects it again.
    Reconnect,
    /// Its disk is full: the node has DiskPressure and is otherwise healthy.
    FillDisk,
    /// The disk has space again.
    FreeDisk,
    /// It does nothing, and later continues as if no time had passed.
    Freeze,
    /// It is cut off and connected in turn, beginning with cut off.
    Flap(KubeletFlapping),
    /// Each of its API calls takes this much longer.
    Slow(#[schemars(with = "DurationText")] GoDuration),
    /// It is not ready for this long after each start and outage.
    SlowRecovery(#[schemars(with = "DurationText")] GoDuration),
    /// The times that it writes are this much in the future.
    ClockAhead(#[schemars(with = "DurationText")] GoDuration),
    /// The times that it writes are this much in the past.
    ClockBehind(#[schemars(with = "DurationText")] GoDuration),
    /// It registers again when its Node is deleted.
    Zombie,
    /// It deletes a Node of its name that belongs to another VM.
    TakeOver,
    /// It does not have such a fault any more.
    End(KubeletFaultKind),
}

/// Alternating between cut off and connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletFlapping {
    /// The length of one cycle, at least a second.
    #[schemars(with = "DurationText")]
    pub every: GoDuration,
    /// The share of a cycle in which it is connected, from 1 to 99.
    #[serde(default = "half")]
    pub up_percent: u32,
}

fn half() -> u32 {
    50
}

/// The faults of a kubelet that exclude each other have one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KubeletFaultKind {
    /// Stopped, cut off, frozen or flapping.
    Outage,
    /// Slow calls.
    Slow,
    /// Slow recovery.
    SlowRecovery,
    /// A wrong clock.
    Clock,
    /// Registering again.
    Zombie,
    /// Deleting a foreign Node.
    TakeOver,
}

impl KubeletAction {
    /// Its name, by which campaigns count actions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Partition => "partition",
            Self::Reconnect => "reconnect",
            Self::FillDisk => "filldisk",
            Self::FreeDisk => "freedisk",
            Self::Freeze => "freeze",
            Self::Flap(_) => "flap",
            Self::Slow(_) => "slow",
            Self::SlowRecovery(_) => "slowrecovery",
            Self::ClockAhead(_) => "clockahead",
            Self::ClockBehind(_) => "clockbehind",
            Self::Zombie => "zombie",
            Self::TakeOver => "takeover",
            Self::End(_) => "end",
        }
    }

    /// The name of the target in records.
    pub fn target(machine: &str) -> String {
        format!("kubelet of {machine}")
    }

    /// What happens to the kubelet of `machine`, in words.
    pub fn on(self, machine: &str) -> String {
        let kubelet = format!("the {}", Self::target(machine));
        match self {
            Self::Flap(flapping) => format!("cut off and connect {kubelet} in turn, every {}", flapping.every),
            Self::Slow(by) => format!("delay each call of {kubelet} by {by}"),
            Self::SlowRecovery(by) => format!("delay each recovery of {kubelet} by {by}"),
            Self::ClockAhead(by) => format!("set the clock of {kubelet} ahead by {by}"),
            Self::ClockBehind(by) => format!("set the clock of {kubelet} back by {by}"),
            Self::Zombie => format!("let {kubelet} register again when its Node is deleted"),
            Self::TakeOver => format!("let {kubelet} delete a foreign Node of its name"),
            Self::End(kind) => format!("end the {} of {kubelet}", kind.title()),
            Self::Stop
            | Self::Start
            | Self::Partition
            | Self::Reconnect
            | Self::FillDisk
            | Self::FreeDisk
            | Self::Freeze => format!("{} {kubelet}", self.name()),
        }
    }

    /// The same as the beginning of a sentence. The actions without values have their names there.
    pub(crate) fn planned_on(self, machine: &str) -> String {
        let has_words = matches!(
            self,
            Self::Flap(_)
                | Self::Slow(_)
                | Self::SlowRecovery(_)
                | Self::ClockAhead(_)
                | Self::ClockBehind(_)
                | Self::Zombie
                | Self::TakeOver
                | Self::End(_)
        );
        if has_words {
            return self.on(machine);
        }
        format!("{self:?} the kubelet of {machine}")
    }

    /// What is wrong with its values, and the fix; `None`: they are valid.
    pub(crate) fn problem(self) -> Option<&'static str> {
        match self {
            Self::Flap(flapping) if flapping.every.0 < SHORTEST_CYCLE => Some("flap.every must be at least 1s"),
            Self::Flap(flapping) if !(1..=99).contains(&flapping.up_percent) => {
                Some("flap.upPercent must be from 1 to 99")
            }
            Self::Slow(by) | Self::SlowRecovery(by) | Self::ClockAhead(by) | Self::ClockBehind(by)
                if by.0.is_zero() =>
            {
                Some("the duration must be longer than zero, for example 30s")
            }
            Self::ClockAhead(by) | Self::ClockBehind(by) if by.0 > LARGEST_OFFSET => {
                Some("the offset of a clock must be at most a year")
            }
            _ => None,
        }
    }
}

impl KubeletFaultKind {
    /// What it is, in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Outage => "outage",
            Self::Slow => "slowness",
            Self::SlowRecovery => "slow recovery",
            Self::Clock => "wrong clock",
            Self::Zombie => "new registration",
            Self::TakeOver => "take-over",
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn action(form: Value) -> Result<KubeletAction, serde_json::Error> {
        serde_json::from_value(form)
    }

    #[rstest]
    #[case::stop(json!("stop"), "stop the kubelet of m-1")]
    #[case::freeze(json!("freeze"), "freeze the kubelet of m-1")]
    #[case::flap(json!({ "flap": { "every": "20s" } }), "cut off and connect the kubelet of m-1 in turn, every 20s")]
    #[case::slow(json!({ "slow": "2s" }), "delay each call of the kubelet of m-1 by 2s")]
    #[case::clock(json!({ "clockBehind": "5m0s" }), "set the clock of the kubelet of m-1 back by 5m0s")]
    #[case::end(json!({ "end": "clock" }), "end the wrong clock of the kubelet of m-1")]
    fn actions_have_a_form_and_words(#[case] form: Value, #[case] words: &str) {
        let action = action(form).unwrap();
        assert_eq!(action.on("m-1"), words);
        assert_eq!(action.problem(), None);
    }

    #[rstest]
    #[case::too_fast(json!({ "flap": { "every": "500ms" } }), "at least 1s")]
    #[case::never_down(json!({ "flap": { "every": "20s", "upPercent": 100 } }), "1 to 99")]
    #[case::no_delay(json!({ "slow": "0s" }), "longer than zero")]
    #[case::no_offset(json!({ "clockAhead": "0s" }), "longer than zero")]
    #[case::another_year(json!({ "clockBehind": "9000h" }), "at most a year")]
    fn invalid_values_have_a_fix(#[case] form: Value, #[case] fix: &str) {
        let problem = action(form).unwrap().problem().unwrap();
        assert!(problem.contains(fix), "{problem}");
    }
}
