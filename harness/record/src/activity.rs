//! What the controller did in numbers, and what it did not do, as text.

use std::fmt::Write as _;
use std::time::Duration;

use judge::evaluate::short;

use crate::model::{Micros, Point, RunRecord, Verb};

/// The methods of the cloud that every driver has; one that was never called is listed, too.
const METHODS: [&str; 5] = [
    "CreateMachine",
    "InitializeMachine",
    "GetMachineStatus",
    "ListMachines",
    "DeleteMachine",
];

/// The cloud calls by method, and the last write of mcm, if writers are known.
pub fn activity(record: &RunRecord) -> String {
    let time = |at: Micros| short(Duration::from_micros(at.0));
    let calls: Vec<&Point> = record.points.iter().filter(|point| point.call.is_some()).collect();
    let mut methods: Vec<&str> = METHODS.to_vec();
    for method in calls.iter().filter_map(|point| point.call.as_deref()) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    let mut text = match record.dropped.is_empty() {
        true => String::from("cloud calls:\n"),
        false => String::from("cloud calls (of the events that the record has room for):\n"),
    };
    for method in methods {
        let mut of_method = calls.iter().filter(|point| point.call.as_deref() == Some(method));
        let count = of_method.clone().count();
        let _ = match (of_method.next(), of_method.next_back()) {
            (None, _) => writeln!(text, "  {method} 0"),
            (Some(only), None) => writeln!(text, "  {method} 1, at +{}", time(only.at)),
            (Some(first), Some(last)) => {
                writeln!(
                    text,
                    "  {method} {count}, first at +{}, last at +{}",
                    time(first.at),
                    time(last.at)
                )
            }
        };
    }
    let is_write = |point: &&Point| {
        let by = point.by.as_deref().unwrap_or_default();
        matches!(point.verb, Verb::Write | Verb::Delete) && by.starts_with("process/mcm")
    };
    if let Some(last) = record.points.iter().rfind(is_write) {
        let idle = Micros(record.meta.lasted.0.saturating_sub(last.at.0));
        let _ = writeln!(
            text,
            "last write of mcm: at +{}, {} before the end: {}",
            time(last.at),
            time(idle),
            last.summary
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::fixture;

    #[test]
    fn methods_that_were_never_called_and_the_last_write_are_said() {
        let mut record = fixture::record();
        for (index, point) in record.points.iter_mut().enumerate() {
            point.call = (index < 2).then(|| "CreateMachine".to_owned());
            point.by = (index == 2).then(|| "process/mcm-0".to_owned());
            point.verb = if index == 2 { Verb::Write } else { point.verb };
        }
        let text = activity(&record);
        assert!(text.contains("  CreateMachine 2, first at +"), "{text}");
        assert!(text.contains("  ListMachines 0\n"), "{text}");
        assert!(text.contains("last write of mcm: at +"), "{text}");
    }
}
