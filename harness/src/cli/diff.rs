//! `drydock diff`: compares the records of two runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use judge::evaluate::short;
use record::{Point, RunRecord, compare};

use super::output::say;
use super::report::{found, is_record};
use super::{Ended, Outcome, Stop};
use crate::report::files::write_file;
use crate::report::record::read_from;

/// Compares two runs event by event, and prints the first difference.
///
/// Times and durations are not compared, and generated names only by the order of their first appearance. `drydock reports diff` compares
/// the results, plans and narratives of two report folders.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock diff .drydock/records/sim-lifecycle-1 .drydock/records/sim-lifecycle-2\n  drydock diff sim-lifecycle-1 sim-lifecycle-1.2 -o difference.html\n\nExit status: 0 no difference, 1 a difference, 2 wrong usage"
)]
pub(super) struct DiffCommand {
    /// A record, its folder, or the name of a report folder
    #[arg(value_name = "A")]
    one: PathBuf,
    /// The other one
    #[arg(value_name = "B")]
    other: PathBuf,
    /// Also writes a page with the lanes of both runs above each other and their events side by side
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl DiffCommand {
    pub(super) fn execute(self) -> Ended {
        let (one, other) = (found(&self.one)?, found(&self.other)?);
        if one == other {
            let both = one.display();
            return Err(Stop::Usage(format!(
                "{both} cannot be compared with itself: name two records"
            )));
        }
        let read = |path: &Path| -> Result<RunRecord, Stop> { Ok(read_from(path)?) };
        let paths = (one, other);
        let (one, other) = (read(&paths.0)?, read(&paths.1)?);
        for (name, record) in [("A", &one), ("B", &other)] {
            let place = &record.meta.place;
            let place = format!("{} on {} with seed {}", place.scenario, place.stage, place.seed);
            say!(
                "{name}: {place}, {} events. {}",
                record.points.len(),
                record.meta.verdict.sentence
            );
        }
        if let Some(output) = &self.output {
            if [&paths.0, &paths.1].into_iter().any(|record| is_record(record, output)) {
                let output = output.display();
                return Err(Stop::Usage(format!("--output {output} is a record: name another file")));
            }
            write_file(output, web::diff_page(&one, &other).as_bytes())
                .map_err(|error| Stop::Usage(format!("cannot write {}: {error}", output.display())))?;
            say!("{}", output.display());
        }
        let comparison = compare(&one, &other);
        let Some((left, right)) = comparison.first else {
            say!("no difference in {} events", comparison.agreed);
            if comparison.same_verdict {
                return Ok(Outcome::Passed);
            }
            say!("but one run passed and the other did not");
            return Ok(Outcome::Failed);
        };
        say!();
        say!("The runs have {} events in common. The last ones:", comparison.agreed);
        for (point, _) in &comparison.common {
            say!("    {}", line(Some(point)));
        }
        say!("The first difference:");
        say!("  A {}", line(left));
        say!("  B {}", line(right));
        Ok(Outcome::Failed)
    }
}

/// An event in one line.
fn line(point: Option<&Point>) -> String {
    match point {
        None => "(no more events)".to_owned(),
        Some(point) => format!(
            "event {}, +{}: {}",
            point.number,
            short(Duration::from_micros(point.at.0)),
            point.summary
        ),
    }
}
