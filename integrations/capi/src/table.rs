//! The results as a Markdown table.

use std::fmt::Write;
use std::time::Duration;

use crate::observe::{Event, History};
use crate::plan::{Expected, Plan};
use crate::side::Side;

/// What both sides did in a plan.
#[derive(Debug)]
pub struct Row {
    /// The plan.
    pub plan: Plan,
    /// What Cluster API did.
    pub cluster_api: History,
    /// What Drydock did.
    pub drydock: History,
}

impl Row {
    /// The expectations that are not met.
    pub fn unexpected(&self) -> Vec<String> {
        let plan = &self.plan;
        let sides = [
            (Side::ClusterApi, &self.cluster_api, &plan.cluster_api),
            (Side::Drydock, &self.drydock, &plan.drydock),
        ];
        let differs = sides
            .into_iter()
            .filter(|(_, history, expected)| !expected.is_met_by(&history.outcome()));
        let text = |(side, history, expected): (Side, &History, &Expected)| {
            let (name, actual) = (side.name(), history.outcome());
            format!("{}: {name}: expected {expected:?}, observed {actual:?}", plan.name)
        };
        differs.map(text).collect()
    }
}

/// The table: for each plan and machine what each controller did, and when; then the reasons of differences.
pub fn table(rows: &[Row]) -> String {
    let mut text = "| plan | machine | Cluster API | Drydock |\n|---|---|---|---|\n".to_owned();
    for row in rows {
        let mut name = match &row.plan.entry {
            Some(entry) => format!("{} ({entry})", row.plan.name),
            None => row.plan.name.clone(),
        };
        for number in 1..=row.plan.machines {
            let sides = [&row.cluster_api, &row.drydock].map(|history| events(history, number));
            if sides.iter().all(String::is_empty) {
                continue;
            }
            let [capi, drydock] = sides;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {name} | {number} | {capi} | {drydock} |");
            name.clear();
        }
        if !name.is_empty() {
            let _ = writeln!(text, "| {name} | all | | |");
        }
    }
    for row in rows {
        if let Some(why) = &row.plan.difference {
            let _ = write!(text, "\n- {}: {why}", row.plan.name);
        }
    }
    text
}

fn events(history: &History, number: usize) -> String {
    let events = history.events.iter().filter(|(of, _, _)| *of == number);
    let texts: Vec<String> = events.map(|(_, at, event)| timed(*at, event)).collect();
    texts.join(", ")
}

fn timed(at: Duration, event: &Event) -> String {
    format!("{:.1} s {event}", at.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_what_each_side_did() {
        let text = "{name: a, about: b, entry: R83, machines: 2, policy: {}, lasts: 1s, faults: [],
            clusterApi: {marked: [2]}, drydock: {}}";
        let mut cluster_api = History::new(&["m-1".to_owned(), "m-2".to_owned()]);
        let reason = Event::Marked("UnhealthyNode".to_owned());
        cluster_api.events.push((2, Duration::from_millis(1500), reason));
        let row = Row {
            plan: Plan::parse("a", text).unwrap(),
            cluster_api,
            drydock: History::default(),
        };
        assert_eq!(row.unexpected(), Vec::<String>::new());
        let expected = "| a (R83) | 2 | 1.5 s marked (UnhealthyNode) |  |";
        assert_eq!(table(&[row]).lines().last(), Some(expected));
    }
}
