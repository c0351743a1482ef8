//! The report of a run: numbers, the records of stale writes, and the narrative. Pure.

use apiserver::views::WriteRecord;
use mcm_api::GoDuration;
use scenario::stale::ExpectedCount;
use serde::Serialize;
use terminal::{Column, Row};

use super::counts::Totals;
use super::observer::Writes;

/// The lines of writes in a short narrative.
const LINES: usize = 10;

/// The report of a run with one lag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// The lag.
    pub lag: GoDuration,
    /// The number of the controller's writes.
    pub writes: usize,
    /// Those that changed something and were based on a view that lacked changes by others.
    pub stale: usize,
    /// Those that changed something and that a change contradicts.
    pub contradicted: usize,
    /// Those that the server refused, or that changed nothing.
    pub without_effect: usize,
    /// The largest number of changes that a view lacked.
    pub oldest_view: u64,
    /// The expectations.
    pub counts: Vec<CountResult>,
    /// The steps.
    pub steps: Vec<PerformedStep>,
    /// The writes that were stale or contradicted, or after which there were too many or too few objects.
    pub records: Vec<WriteRecord>,
}

/// What was counted for one expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountResult {
    /// The expectation: `at most 20 Pods with app=web`.
    pub expected: String,
    /// How many objects were created.
    pub created: usize,
    /// How many were deleted.
    pub deleted: usize,
    /// The largest number at a time.
    pub most: usize,
    /// The smallest number at a time, once there were enough.
    pub least: Option<usize>,
    /// The number at the end.
    pub at_end: usize,
    /// How many there were above the limit.
    pub extra: usize,
    /// How many there were below the limit.
    pub missing: usize,
    /// The first change after which there were too many or too few, and how many there were then.
    pub violations: Vec<Violation>,
}

/// A change after which there were too many or too few objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The revision of the change.
    pub revision: u64,
    /// The number of objects.
    pub objects: usize,
    /// The controller's write that made the change; `None`: another client made it.
    pub write: Option<u64>,
}

/// A step that was performed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PerformedStep {
    /// Its description.
    pub step: String,
    /// When it began, after the controller's start.
    pub after: GoDuration,
    /// The newest revision at that time.
    pub revision: u64,
}

impl RunReport {
    pub(super) fn new(
        lag: GoDuration,
        writes: &Writes,
        expected: &[ExpectedCount],
        totals: &[Totals],
        steps: Vec<PerformedStep>,
    ) -> Self {
        let counts: Vec<CountResult> = expected
            .iter()
            .zip(totals)
            .map(|(expected, totals)| CountResult::new(expected, totals, &writes.records))
            .collect();
        let violating = |record: &WriteRecord| {
            let mut violations = counts.iter().flat_map(|count| &count.violations);
            violations.any(|violation| violation.write == Some(record.number))
        };
        let done = writes.records.iter().filter(|record| record.is_done());
        let views = done.clone().filter_map(|record| record.oldest_view());
        let notable = done.filter(|record| record.is_stale() || !record.contradictions.is_empty() || violating(record));
        Self {
            lag,
            writes: writes.total,
            stale: writes.stale,
            contradicted: writes.contradicted,
            without_effect: writes.without_effect,
            oldest_view: views.map(|kind| kind.behind).max().unwrap_or_default(),
            records: notable.cloned().collect(),
            counts,
            steps,
        }
    }

    /// Whether all expectations were met.
    pub fn is_as_expected(&self) -> bool {
        self.counts.iter().all(|count| count.violations.is_empty())
    }
}

impl CountResult {
    fn new(expected: &ExpectedCount, totals: &Totals, records: &[WriteRecord]) -> Self {
        let of_write = |revision| {
            let found = records.iter().find(|record| record.revision == Some(revision));
            found.map(|record| record.number)
        };
        let violations = totals.first_above.into_iter().chain(totals.first_below);
        let most = expected.at_most.unwrap_or(usize::MAX);
        let least = expected.at_least.unwrap_or_default();
        Self {
            expected: describe(expected),
            created: totals.created,
            deleted: totals.deleted,
            most: totals.most,
            least: totals.least,
            at_end: totals.now,
            extra: totals.most.saturating_sub(most),
            missing: totals.least.map_or(0, |lowest| least.saturating_sub(lowest)),
            violations: violations
                .map(|(revision, objects)| Violation {
                    revision,
                    objects,
                    write: of_write(revision),
                })
                .collect(),
        }
    }
}

/// For instance `at least 15 and at most 20 Pods with app=web`.
fn describe(expected: &ExpectedCount) -> String {
    let least = expected.at_least.map(|count| format!("at least {count}"));
    let most = expected.at_most.map(|count| format!("at most {count}"));
    let limits: Vec<String> = least.into_iter().chain(most).collect();
    let labels: Vec<String> = expected
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let with = if labels.is_empty() { "" } else { " with " };
    format!("{} {}s{with}{}", limits.join(" and "), expected.kind, labels.join(","))
}

/// The narrative of a run: its steps and notable writes in the order of revisions. Without `all` only the first writes.
pub fn narrative(report: &RunReport, all: bool) -> String {
    let mut text = format!("lag {}:\n", report.lag);
    let limit = if all { usize::MAX } else { LINES };
    let mut records: Vec<&WriteRecord> = report.records.iter().collect();
    records.sort_by_key(|record| record.revision);
    let mut records = records.into_iter().take(limit).peekable();
    for step in &report.steps {
        while let Some(record) = records.next_if(|record| record.revision <= Some(step.revision)) {
            text += &format!("  {record}\n");
        }
        text += &format!("  after {} (revision {}): {}\n", step.after, step.revision, step.step);
    }
    for record in records {
        text += &format!("  {record}\n");
    }
    let left = report.records.len().saturating_sub(limit);
    if left > 0 {
        text += &format!("  and {left} more writes: -v shows them\n");
    }
    for count in &report.counts {
        text += &count_text(count, &report.records);
    }
    text
}

fn count_text(count: &CountResult, records: &[WriteRecord]) -> String {
    if count.violations.is_empty() {
        return format!("  as expected: {}\n", count.expected);
    }
    let violations = count.violations.iter().map(|violation| {
        let Violation {
            revision,
            objects,
            write,
        } = violation;
        let by = match records.iter().find(|record| Some(record.number) == *write) {
            Some(record) => record.to_string(),
            None => "by no recorded write of the controller".to_owned(),
        };
        format!("  not {}: {objects} at revision {revision}, {by}\n", count.expected)
    });
    violations.collect()
}

impl Row for RunReport {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("LAG"),
        Column::Shown("WRITES"),
        Column::Shown("STALE"),
        Column::Shown("CONTRADICTED"),
        Column::Shown("OLDEST VIEW"),
        Column::Shown("CREATED"),
        Column::Shown("EXTRA"),
        Column::Shown("MISSING"),
        Column::Wide("WITHOUT EFFECT"),
        Column::Shown("EXPECTATIONS"),
    ];

    fn cells(&self) -> Vec<String> {
        let sum = |of: fn(&CountResult) -> usize| self.counts.iter().map(of).sum::<usize>().to_string();
        let met = if self.is_as_expected() { "met" } else { "not met" };
        vec![
            self.lag.to_string(),
            self.writes.to_string(),
            self.stale.to_string(),
            self.contradicted.to_string(),
            self.oldest_view.to_string(),
            sum(|count| count.created),
            sum(|count| count.extra),
            sum(|count| count.missing),
            self.without_effect.to_string(),
            met.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use apiserver::faults::Verb;
    use apiserver::views::{Contradiction, Rule, SentKind};
    use terminal::{Format, render};

    use super::*;

    fn record(number: u64, revision: u64, behind: u64, own: u64) -> WriteRecord {
        WriteRecord {
            number,
            at: jiff::Timestamp::UNIX_EPOCH,
            client: "me".to_owned(),
            agent: String::new(),
            verb: Verb::Create,
            resource: "pods".to_owned(),
            subresource: String::new(),
            namespace: "default".to_owned(),
            name: format!("web-{number}"),
            code: Some(201),
            revision: Some(revision),
            object: None,
            kinds: vec![SentKind {
                resource: "pods".to_owned(),
                namespace: String::new(),
                selector: String::new(),
                sent: revision - behind - 1,
                newest: revision - 1,
                behind,
                own,
                at_least: false,
                related: true,
            }],
            contradictions: Vec::new(),
        }
    }

    fn report() -> RunReport {
        let mut writes = Writes::default();
        let mut third = record(3, 1030, 5, 2);
        third.contradictions.push(Contradiction {
            rule: Rule::Owner,
            revision: 1028,
            resource: "replicasets.apps".to_owned(),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            change: "got a new spec (generation 2)".to_owned(),
        });
        let refused = WriteRecord {
            code: Some(409),
            revision: None,
            ..record(4, 1031, 5, 2)
        };
        for record in [record(1, 1010, 0, 0), record(2, 1020, 1, 1), third, refused] {
            writes.add(&record);
        }
        let expected = ExpectedCount {
            api_version: None,
            kind: "Pod".to_owned(),
            labels: [("app".to_owned(), "web".to_owned())].into(),
            at_most: Some(1),
            at_least: Some(1),
        };
        let totals = Totals {
            created: 3,
            deleted: 0,
            most: 3,
            least: Some(1),
            now: 3,
            first_above: Some((1020, 2)),
            first_below: None,
        };
        let step = |text: &str, seconds, revision| PerformedStep {
            step: text.to_owned(),
            after: GoDuration(std::time::Duration::from_secs(seconds)),
            revision,
        };
        let steps = vec![step("apply ReplicaSet web", 0, 1005), step("wait 2 * lag", 1, 1025)];
        let lag = GoDuration(std::time::Duration::from_secs(10));
        RunReport::new(lag, &writes, &[expected], &[totals], steps)
    }

    #[test]
    fn the_narrative_has_the_steps_and_the_stale_writes_in_their_order() {
        let expected = "\
lag 10s:
  after 0s (revision 1005): apply ReplicaSet web
  write 2 (create pods default/web-2) was based on a view of pods 1 revision old (1 of them its own)
  after 1s (revision 1025): wait 2 * lag
  write 3 (create pods default/web-3) was based on a view of pods 5 revisions old (2 of them its own) and contradicts revision 1028 (replicasets.apps default/web got a new spec (generation 2))
  not at least 1 and at most 1 Pods with app=web: 2 at revision 1020, write 2 (create pods default/web-2) was based on a view of pods 1 revision old (1 of them its own)
";
        assert_eq!(narrative(&report(), false), expected);
    }

    #[test]
    fn the_table_has_a_row_for_each_lag() {
        let expected = "\
LAG  WRITES  STALE  CONTRADICTED  OLDEST VIEW  CREATED  EXTRA  MISSING  EXPECTATIONS
10s  4       1      1             5            3        2      0        not met
";
        assert_eq!(render(Format::Table, &[report()]).unwrap(), expected);
    }

    #[test]
    fn a_change_by_another_client_is_not_attributed_to_the_controller() {
        let mut report = report();
        report.counts[0].violations[0].write = None;
        assert!(narrative(&report, false).ends_with("2 at revision 1020, by no recorded write of the controller\n"));
    }
}
