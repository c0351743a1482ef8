//! The record of a campaign: what its seeds evaluated, reached and violated.

use serde::{Deserialize, Serialize};

use crate::read::{self, ReadError};

/// The name of the file with the record of a campaign.
pub const CAMPAIGN_FILE: &str = "campaign.drydock.json";
/// From this number of seeds on, a declared event must occur in one of this many.
pub const RARE_ONE_OF: u64 = 100;

/// The record of one campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CampaignRecord {
    /// The version of the format: 1.
    pub version: u32,
    /// The version of the program that wrote it.
    pub drydock: String,
    /// The names of its suites.
    pub suites: Vec<String>,
    /// The number of its seeds.
    pub seeds: u64,
    /// The number of seeds that failed.
    pub failed: u64,
    /// Whether it was interrupted. Its failures are then not compared with undisturbed runs.
    pub interrupted: bool,
    /// Its duration by the wall clock, in seconds.
    pub wall_seconds: f64,
    /// All invariants.
    pub invariants: Vec<InvariantTally>,
    /// What occurred, and what its suites declare.
    pub events: Vec<EventTally>,
    /// The failures, by their cause.
    pub groups: Vec<GroupRecord>,
}

/// How often an invariant was evaluated and violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvariantTally {
    /// Its short name.
    pub name: String,
    /// The rule in one sentence.
    pub statement: String,
    /// The number of seeds in which it was evaluated.
    pub seeds: u64,
    /// The number of evaluations in all seeds.
    pub times: u64,
    /// The number of seeds that violated it.
    pub violated: u64,
}

/// How often an event occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventTally {
    /// Its group, for example `transition`.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Whether a suite declares that it occurs.
    pub declared: bool,
    /// The number of seeds in which it occurred.
    pub seeds: u64,
    /// The number of occurrences in all seeds.
    pub times: u64,
}

/// Whether a campaign reached an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// A suite declares it, and it did not occur.
    Never,
    /// A suite declares it, and it occurred in fewer than one of a hundred seeds.
    Rarely,
    /// It occurred.
    Reached,
}

/// Failures with a common cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    /// The violated invariant, or another cause.
    pub broken: String,
    /// The first event that differs from the undisturbed run, without names and numbers; absent: it was not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<String>,
    /// Its seeds, in order.
    pub seeds: Vec<u64>,
    /// The reason of the first failure.
    pub reason: String,
    /// The command that repeats the first run.
    pub replay: String,
    /// The report folder of the first run, relative to the folder of this record if it is in that folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// The page that compares the first run with its undisturbed run, relative in the same way; absent: it was not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

impl CampaignRecord {
    /// Whether all seeds passed and reached what the suites declare.
    pub fn passed(&self) -> bool {
        self.failed == 0 && self.rare().next().is_none()
    }

    /// The declared events that occurred in fewer than one of a hundred seeds. None if the campaign has too few seeds to decide.
    pub fn rare(&self) -> impl Iterator<Item = &EventTally> {
        let decides = self.seeds >= RARE_ONE_OF;
        self.events
            .iter()
            .filter(move |event| decides && self.reach(event) != Reach::Reached)
    }

    /// The number of failures that are in no group, because a campaign compares only some of many.
    pub fn ungrouped(&self) -> u64 {
        let grouped = self.groups.iter().map(|group| group.seeds.len() as u64);
        self.failed.saturating_sub(grouped.sum())
    }

    /// Whether it reached an event.
    pub fn reach(&self, event: &EventTally) -> Reach {
        match (event.declared, event.seeds) {
            (true, 0) => Reach::Never,
            (true, seeds) if self.seeds >= RARE_ONE_OF && seeds * RARE_ONE_OF < self.seeds => Reach::Rarely,
            _ => Reach::Reached,
        }
    }
}

/// Parses the record of a campaign.
///
/// # Errors
/// When it is too large, of a newer version, not complete, or no record of a campaign.
pub fn read_campaign(text: &[u8]) -> Result<CampaignRecord, ReadError> {
    read::checked(text, CAMPAIGN_FILE)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn campaign(seeds: u64) -> CampaignRecord {
        CampaignRecord {
            version: 1,
            drydock: "0".to_owned(),
            suites: vec!["rollout".to_owned()],
            seeds,
            failed: 0,
            interrupted: false,
            wall_seconds: 1.0,
            invariants: Vec::new(),
            events: Vec::new(),
            groups: Vec::new(),
        }
    }

    #[rstest]
    #[case::never(10, true, 0, Reach::Never)]
    #[case::rarely(1000, true, 9, Reach::Rarely)]
    #[case::one_of_a_hundred(1000, true, 10, Reach::Reached)]
    #[case::too_few_seeds_to_decide(99, true, 1, Reach::Reached)]
    #[case::not_declared(1000, false, 1, Reach::Reached)]
    fn a_declared_event_must_be_reached(
        #[case] of: u64,
        #[case] declared: bool,
        #[case] seeds: u64,
        #[case] expected: Reach,
    ) {
        let event = EventTally {
            group: "fault".to_owned(),
            name: "crash".to_owned(),
            declared,
            seeds,
            times: seeds,
        };
        let campaign = CampaignRecord {
            events: vec![event],
            ..campaign(of)
        };
        assert_eq!(campaign.reach(&campaign.events[0]), expected);
        assert_eq!(campaign.passed(), expected == Reach::Reached || of < RARE_ONE_OF);
    }

    #[test]
    fn a_record_is_read_and_one_of_a_newer_version_or_of_another_kind_is_refused() {
        let mut value = serde_json::to_value(campaign(3)).unwrap();
        assert_eq!(read_campaign(value.to_string().as_bytes()).unwrap(), campaign(3));
        value["version"] = 2.into();
        let message = read_campaign(value.to_string().as_bytes()).unwrap_err().to_string();
        assert!(message.contains("version: it has version 2"), "{message}");
        let message = read_campaign(b"{\"version\": 1}").unwrap_err().to_string();
        assert!(message.contains(CAMPAIGN_FILE), "{message}");
    }
}
