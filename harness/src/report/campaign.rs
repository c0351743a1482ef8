//! Writes and reads the record of a campaign, and makes its page.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use ::record::{
    CAMPAIGN_FILE, CampaignRecord, EventTally, GroupRecord, InvariantTally, ReadError, VERSION, read_campaign,
};
use judge::invariants::{self, Coverage};
use scenario::occurred::Group;
use scenario::result::RunResult;

use super::files::{read_record, write_file};
use super::record::read_from as read_run;
use crate::campaign::groups::FailureGroup;
use crate::campaign::suite::Suite;
use crate::campaign::tally::{Line, Tally};

/// The file with the page of a campaign.
pub const CAMPAIGN_PAGE: &str = "campaign.html";
/// The file in a report folder with the page that compares the run with its undisturbed run.
const DIFFERENCE: &str = "difference.html";

/// A campaign that has ended.
#[derive(Debug)]
pub struct EndedCampaign<'a> {
    /// Its suites.
    pub suites: &'a [&'static Suite],
    /// Its results.
    pub results: &'a [RunResult],
    /// What occurred.
    pub tally: &'a Tally,
    /// Its failures.
    pub groups: &'a [FailureGroup],
    /// Whether the failures are compared with undisturbed runs; otherwise the campaign was interrupted.
    pub is_compared: bool,
    /// Its duration by the wall clock, in seconds.
    pub wall_seconds: f64,
}

/// Why a campaign has no page.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The folder contains no campaign.
    #[error(
        "{folder} contains no {CAMPAIGN_FILE}: give the folder of `drydock chaos`, which is .drydock/chaos without --report"
    )]
    NoCampaign {
        /// The folder.
        folder: PathBuf,
    },
    /// The record cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The record.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not the record of a campaign.
    #[error("{path}: {source}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ReadError,
    },
}

/// Writes the record and the page of a campaign into its folder. Returns the page.
///
/// # Errors
/// When they cannot be written.
pub fn write(folder: &Path, campaign: &EndedCampaign<'_>) -> io::Result<PathBuf> {
    let record = record_of(folder, campaign);
    write_file(&folder.join(CAMPAIGN_FILE), &serde_json::to_vec_pretty(&record)?)?;
    let page = folder.join(CAMPAIGN_PAGE);
    write_page(folder, &record, &page)?;
    Ok(page)
}

/// Writes the page of the campaign in a folder. Its links lead to the report folders, wherever the page is.
///
/// # Errors
/// When it cannot be written.
pub fn write_page(folder: &Path, record: &CampaignRecord, page: &Path) -> io::Result<()> {
    let parent = page
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)?;
    let folder = folder.canonicalize()?;
    let is_beside = parent.canonicalize()? == folder;
    let address = |report: &str| match is_beside {
        true => report.to_owned(),
        false => folder.join(report).display().to_string(),
    };
    write_file(page, web::campaign_page(record, address).as_bytes())
}

/// Reads the record of the campaign in a folder.
///
/// # Errors
/// See [`CampaignError`].
pub fn read_from(folder: &Path) -> Result<CampaignRecord, CampaignError> {
    let path = folder.join(CAMPAIGN_FILE);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => CampaignError::NoCampaign {
            folder: folder.to_owned(),
        },
        _ => CampaignError::Read {
            path: path.clone(),
            source,
        },
    };
    let invalid = |source| CampaignError::Invalid {
        path: path.clone(),
        source,
    };
    let text = read_record(&path, CAMPAIGN_FILE).map_err(failed)?.map_err(invalid)?;
    read_campaign(&text).map_err(invalid)
}

fn record_of(folder: &Path, campaign: &EndedCampaign<'_>) -> CampaignRecord {
    let lines = campaign.tally.lines();
    let failed = campaign.results.iter().filter(|result| !result.passed()).count();
    CampaignRecord {
        version: VERSION,
        drydock: env!("CARGO_PKG_VERSION").to_owned(),
        suites: campaign.suites.iter().map(|suite| suite.name.to_owned()).collect(),
        seeds: campaign.results.len() as u64,
        failed: failed as u64,
        interrupted: !campaign.is_compared,
        wall_seconds: campaign.wall_seconds,
        invariants: invariants_of(&lines, campaign.results),
        events: events_of(&lines, campaign.suites),
        groups: campaign
            .groups
            .iter()
            .map(|group| group_of(folder, group, campaign.is_compared))
            .collect(),
    }
}

/// All invariants that a run can violate.
fn invariants_of(lines: &[Line], results: &[RunResult]) -> Vec<InvariantTally> {
    let checked = invariants::ALL
        .iter()
        .filter(|invariant| invariant.is_of_one_run() && !matches!(invariant.coverage, Coverage::Nothing(_)));
    let tally = |invariant: &invariants::Invariant| {
        let line = lines
            .iter()
            .find(|line| line.group == Group::Invariant && line.name == invariant.name);
        let count = line.map(|line| line.count).unwrap_or_default();
        let failures = results.iter().filter_map(|result| result.failure.as_ref());
        InvariantTally {
            name: invariant.name.to_owned(),
            statement: invariant.statement.to_owned(),
            seeds: count.seeds,
            times: count.times,
            violated: failures
                .filter(|failure| failure.invariant.as_deref() == Some(invariant.name))
                .count() as u64,
        }
    };
    checked.map(tally).collect()
}

/// What occurred, and what the suites declare.
fn events_of(lines: &[Line], suites: &[&Suite]) -> Vec<EventTally> {
    let mut declared: BTreeSet<(Group, &str)> =
        suites.iter().flat_map(|suite| suite.declares.iter().copied()).collect();
    let event = |group: Group, name: &str, declared, seeds, times| EventTally {
        group: group.to_string(),
        name: name.to_owned(),
        declared,
        seeds,
        times,
    };
    let mut events: Vec<EventTally> = lines
        .iter()
        .filter(|line| line.group != Group::Invariant)
        .map(|line| {
            let is_declared = declared.remove(&(line.group, line.name.as_str()));
            event(line.group, &line.name, is_declared, line.count.seeds, line.count.times)
        })
        .collect();
    events.extend(declared.into_iter().map(|(group, name)| event(group, name, true, 0, 0)));
    events
}

fn group_of(folder: &Path, group: &FailureGroup, is_compared: bool) -> GroupRecord {
    let relative = |path: &Path| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    GroupRecord {
        broken: group.key.broken.clone(),
        first_difference: is_compared.then(|| group.key.first_difference.clone()),
        seeds: group.seeds.clone(),
        reason: group.reason.clone(),
        replay: group.replay.clone(),
        report: group.report.as_deref().map(relative),
        difference: difference_of(group).as_deref().map(relative),
    }
}

/// Writes the page that compares the first run of a group with its undisturbed run, into the report folder of the first.
/// `None`: one of the two has no record.
fn difference_of(group: &FailureGroup) -> Option<PathBuf> {
    let (undisturbed, report) = (group.undisturbed.as_deref()?, group.report.as_deref()?);
    let [one, other] = [undisturbed, report].map(read_run);
    let page = report.join(DIFFERENCE);
    let html = web::diff_page(&one.ok()?, &other.ok()?);
    write_file(&page, html.as_bytes()).ok()?;
    Some(page)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use scenario::job::Job;
    use scenario::{Occurred, Scenario, StageKind};

    use super::*;
    use crate::campaign::groups::group;

    static SUITE: Suite = Suite {
        name: "test",
        about: "",
        declares: &[(Group::Fault, "crash"), (Group::Fault, "never")],
    };

    /// A campaign of two seeds, of which one violates I1.
    fn written(folder: &Path) -> PathBuf {
        let job = Job {
            reports: folder.to_owned(),
            ..Job::new(Scenario::new("story", ""), StageKind::Sim, 7)
        };
        let mut failed = RunResult::broken(&job, "two VMs".to_owned());
        if let Some(failure) = &mut failed.failure {
            failure.invariant = Some("I1".to_owned());
        }
        failed.report = Some(folder.join("sim-story-7"));
        let mut passed = RunResult::broken(&job, String::new());
        passed.failure = None;
        let mut tally = Tally::default();
        for _ in 0..2 {
            tally.add(&Occurred {
                faults: BTreeMap::from([("crash".to_owned(), 3)]),
                invariants: BTreeMap::from([("I1".to_owned(), 50)]),
                ..Occurred::default()
            });
        }
        let groups = group(&[(failed.clone(), Vec::new())]);
        let campaign = EndedCampaign {
            suites: &[&SUITE],
            results: &[failed, passed],
            tally: &tally,
            groups: &groups,
            is_compared: true,
            wall_seconds: 2.0,
        };
        write(folder, &campaign).unwrap()
    }

    #[test]
    fn a_campaign_has_a_record_and_a_page_with_links_to_its_reports() {
        let folder = tempfile::tempdir().unwrap();
        let page = std::fs::read_to_string(written(folder.path())).unwrap();
        assert!(page.contains("href=\"sim-story-7/report.html\""), "{page}");
        let record = read_from(folder.path()).unwrap();
        assert!(record.invariants.iter().all(|invariant| invariant.name != "I17"));
        let invariant = record
            .invariants
            .iter()
            .find(|invariant| invariant.name == "I1")
            .unwrap();
        assert_eq!((invariant.seeds, invariant.times, invariant.violated), (2, 100, 1));
        let events: Vec<_> = record
            .events
            .iter()
            .map(|event| (event.name.as_str(), event.declared, event.seeds))
            .collect();
        assert_eq!(events, [("crash", true, 2), ("never", true, 0)]);
        assert_eq!(record.groups[0].report.as_deref(), Some("sim-story-7"));
    }

    #[test]
    fn a_page_elsewhere_has_links_to_the_same_reports() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        written(folder.path());
        let page = other.path().join("nightly.html");
        write_page(folder.path(), &read_from(folder.path()).unwrap(), &page).unwrap();
        let page = std::fs::read_to_string(page).unwrap();
        let expected = folder.path().canonicalize().unwrap().join("sim-story-7/report.html");
        assert!(page.contains(&format!("href=\"{}\"", expected.display())), "{page}");
    }

    #[test]
    fn a_folder_without_a_campaign_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let message = read_from(folder.path()).unwrap_err().to_string();
        assert!(message.contains("give the folder of `drydock chaos`"), "{message}");
        std::fs::write(folder.path().join(CAMPAIGN_FILE), "{\"version\": 1, \"suites\": [").unwrap();
        let message = read_from(folder.path()).unwrap_err().to_string();
        assert!(message.contains("ends in the middle"), "{message}");
        let file = std::fs::File::create(folder.path().join(CAMPAIGN_FILE)).unwrap();
        let message = read_from(folder.path()).unwrap_err().to_string();
        assert!(message.contains("it is empty"), "{message}");
        file.set_len(2 << 30).unwrap();
        let message = read_from(folder.path()).unwrap_err().to_string();
        assert!(
            message.contains("2147483648 bytes") && message.contains(CAMPAIGN_FILE),
            "{message}"
        );
    }
}
