//! Scenario and plan files: what is read can be written, and read again without a difference.

use std::fmt::Display;

use scenario::Scenario;
use scenario::plan::Plan;

use crate::target::Runner;
use crate::{Outcome, Violation};

pub(super) fn start_scenarios() -> Result<Runner, Violation> {
    Ok(Box::new(|input| {
        round_trip(input, |text| Scenario::from_yaml(text, "file"), Scenario::to_yaml)
    }))
}

pub(super) fn start_plans() -> Result<Runner, Violation> {
    let named = Scenario::from_yaml(
        "name: known\nabout: A scenario.\nsteps: [{apply: {machine: m-1}}]\n",
        "known",
    );
    let named = vec![named.map_err(|error| Violation::new(error.to_string()))?];
    Ok(Box::new(move |input| {
        round_trip(input, |text| Plan::from_yaml(text, "file", &named), Plan::to_yaml)
    }))
}

fn round_trip<T: PartialEq, E: Display, F: Display>(
    input: &[u8],
    read: impl Fn(&str) -> Result<T, E>,
    write: impl Fn(&T) -> Result<String, F>,
) -> Result<Outcome, Violation> {
    let first = match read(&String::from_utf8_lossy(input)) {
        Ok(value) => value,
        Err(error) => {
            let text = error.to_string();
            return if text.is_empty() || text.contains('\n') {
                Err(Violation::new(format!("the error is not one line: {text:?}")))
            } else {
                Ok(Outcome::Refused)
            };
        }
    };
    let text = write(&first).map_err(|error| Violation::new(format!("a valid file cannot be written: {error}")))?;
    match read(&text) {
        Ok(second) if second == first => Ok(Outcome::Accepted),
        Ok(_) => Err(Violation::new(format!(
            "the file differs when it is read again: {text}"
        ))),
        Err(error) => Err(Violation::new(format!("what was written cannot be read: {error}"))),
    }
}
