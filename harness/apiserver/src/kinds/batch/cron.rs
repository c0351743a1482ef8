//! CronJobs.

use serde_json::Value;

use crate::kinds::fields::{default, not_negative, one_of, text};
use crate::kinds::pods::defaults;
use crate::status::FieldError;

/// The longest name: the names of jobs add eleven characters.
const LONGEST_NAME: usize = 52;
/// The fields of a schedule: name, smallest and largest value.
const FIELDS: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

pub(super) fn prepare(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "concurrencyPolicy", "Allow");
    default(new, "/spec", "suspend", false);
    default(new, "/spec", "successfulJobsHistoryLimit", 3);
    default(new, "/spec", "failedJobsHistoryLimit", 1);
    default(new, "/spec/jobTemplate", "metadata", serde_json::json!({}));
    default(
        new,
        "/spec/jobTemplate/spec/template",
        "metadata",
        serde_json::json!({}),
    );
    defaults::pod_spec(new, "/spec/jobTemplate/spec/template/spec");
    if old.is_none() {
        default(new, "", "status", serde_json::json!({}));
    }
}

pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(new, "/metadata/name");
    if old.is_none() && name.len() > LONGEST_NAME {
        let why = "must be no more than 52 characters";
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    let schedule = text(new, "/spec/schedule");
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else if schedule.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid("spec.schedule", schedule, why));
    } else if let Err(why) = check_schedule(schedule) {
        errors.push(FieldError::invalid("spec.schedule", schedule, why.to_string()));
    }
    let zone = text(new, "/spec/timeZone");
    // A machine without a database of time zones knows none.
    let has_zones = jiff::tz::db().available().next().is_some();
    let refused = match zone {
        "" if new.pointer("/spec/timeZone").is_some_and(Value::is_string) => {
            Some("timeZone must be nil or non-empty string".to_owned())
        }
        "" => None,
        _ if zone.eq_ignore_ascii_case("local") => {
            Some("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned())
        }
        _ if has_zones && jiff::tz::TimeZone::get(zone).is_err() => Some(format!("unknown time zone {zone}")),
        _ => None,
    };
    if let Some(why) = refused {
        errors.push(FieldError::invalid("spec.timeZone", zone, why));
    }
    one_of(
        &mut errors,
        new,
        "/spec/concurrencyPolicy",
        "spec.concurrencyPolicy",
        &["Allow", "Forbid", "Replace"],
    );
    for count in [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ] {
        not_negative(&mut errors, new, &format!("/spec/{count}"));
    }
    if let Some(job) = new.pointer("/spec/jobTemplate/spec") {
        super::validate::validate_spec(&mut errors, job, "spec.jobTemplate.spec");
    }
    errors
}

/// What is wrong with a schedule, as upstream's parser (robfig/cron) says it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidSchedule {
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    #[error("expected exactly 5 fields, found {count}: [{text}]")]
    Fields { count: usize, text: String },
    #[error("failed to parse int from {0}: strconv.Atoi: parsing {0:?}: invalid syntax")]
    Number(String),
    #[error("end of range ({end}) above maximum ({most}): {text}")]
    AboveMaximum { end: u32, most: u32, text: String },
    #[error("beginning of range ({start}) below minimum ({least}): {text}")]
    BelowMinimum { start: u32, least: u32, text: String },
    #[error("beginning of range ({start}) beyond end of range ({end}): {text}")]
    Reversed { start: u32, end: u32, text: String },
    #[error("step of range should be a positive number: {0}")]
    Step(String),
}

fn check_schedule(schedule: &str) -> Result<(), InvalidSchedule> {
    const DESCRIPTORS: [&str; 7] = [
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    ];
    if schedule.starts_with('@') {
        let known = DESCRIPTORS.contains(&schedule) || schedule.starts_with("@every ");
        return match known {
            true => Ok(()),
            false => Err(InvalidSchedule::Descriptor(schedule.to_owned())),
        };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(InvalidSchedule::Fields {
            count: fields.len(),
            text: fields.join(" "),
        });
    }
    for (index, (field, bounds)) in fields.iter().zip(FIELDS).enumerate() {
        let names: &[&str] = match index {
            3 => &MONTHS,
            4 => &DAYS,
            _ => &[],
        };
        for range in field.split(',') {
            check_range(range, bounds, names)?;
        }
    }
    Ok(())
}

fn check_range(text: &str, (least, most): (u32, u32), names: &[&str]) -> Result<(), InvalidSchedule> {
    let number = |part: &str| -> Result<u32, InvalidSchedule> {
        let named = names.iter().position(|name| part.eq_ignore_ascii_case(name));
        match named.and_then(|index| u32::try_from(index).ok()) {
            Some(index) => Ok(index.saturating_add(least)),
            None => part.parse().map_err(|_| InvalidSchedule::Number(part.to_owned())),
        }
    };
    let (range, step) = text
        .split_once('/')
        .map_or((text, None), |(range, step)| (range, Some(step)));
    let (start, end) = match range {
        "*" | "?" => (least, most),
        _ => match range.split_once('-') {
            Some((start, end)) => (number(start)?, number(end)?),
            None => {
                let start = number(range)?;
                (start, if step.is_some() { most } else { start })
            }
        },
    };
    if let Some(step) = step
        && number(step)? == 0
    {
        return Err(InvalidSchedule::Step(text.to_owned()));
    }
    let text = text.to_owned();
    if start < least {
        return Err(InvalidSchedule::BelowMinimum { start, least, text });
    }
    if end > most {
        return Err(InvalidSchedule::AboveMaximum { end, most, text });
    }
    if start > end {
        return Err(InvalidSchedule::Reversed { start, end, text });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*/5 * * * *", "")]
    #[case("0 0 1,15 jan-mar mon", "")]
    #[case("@daily", "")]
    #[case("@every 5m", "")]
    #[case("@often", "unrecognized descriptor: @often")]
    #[case("61 * * * *", "end of range (61) above maximum (59): 61")]
    #[case("0 0 0 * *", "beginning of range (0) below minimum (1): 0")]
    #[case("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1")]
    #[case("*/0 * * * *", "step of range should be a positive number: */0")]
    #[case(
        "a * * * *",
        "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"
    )]
    #[case("* * * *", "expected exactly 5 fields, found 4: [* * * *]")]
    fn schedules_are_checked(#[case] schedule: &str, #[case] expected: &str) {
        let error = check_schedule(schedule).err().map(|error| error.to_string());
        assert_eq!(error.unwrap_or_default(), expected);
    }
}
