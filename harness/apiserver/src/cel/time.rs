//! Fields of timestamps, in any time zone, and units of durations, as in cel-go.

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::Value;

/// The result of a function of a timestamp or a duration; `None`: it is another function.
pub(super) fn field(function: &str, target: &Value, arguments: &[Value]) -> Option<Result<Value, String>> {
    match (target, arguments) {
        (Value::Duration(duration), []) => {
            let number = match function {
                "getHours" => duration.num_hours(),
                "getMinutes" => duration.num_minutes(),
                "getSeconds" => duration.num_seconds(),
                "getMilliseconds" => duration.num_milliseconds(),
                _ => return None,
            };
            Some(Ok(Value::Int(number)))
        }
        (Value::Timestamp(time), []) => {
            let (seconds, nanos) = (time.timestamp(), time.timestamp_subsec_nanos());
            of_time(function, seconds, nanos, TimeZone::UTC)
        }
        (Value::Timestamp(time), [Value::String(zone)]) => {
            let (seconds, nanos) = (time.timestamp(), time.timestamp_subsec_nanos());
            match zone_of(zone) {
                Ok(zone) => of_time(function, seconds, nanos, zone),
                Err(error) => Some(Err(error)),
            }
        }
        _ => None,
    }
}

fn of_time(function: &str, seconds: i64, nanos: u32, zone: TimeZone) -> Option<Result<Value, String>> {
    let nanos = i32::try_from(nanos).ok()?;
    let time = Timestamp::new(seconds, nanos).ok()?.to_zoned(zone);
    number(function, &time).map(|number| Ok(Value::Int(number)))
}

/// Months, days of a month and days of a year begin with 0, except in `getDate`; weeks begin with Sunday.
fn number(function: &str, time: &Zoned) -> Option<i64> {
    Some(match function {
        "getFullYear" => time.year().into(),
        "getMonth" => i64::from(time.month()).saturating_sub(1),
        "getDate" => time.day().into(),
        "getDayOfMonth" => i64::from(time.day()).saturating_sub(1),
        "getDayOfWeek" => time.weekday().to_sunday_zero_offset().into(),
        "getDayOfYear" => i64::from(time.day_of_year()).saturating_sub(1),
        "getHours" => time.hour().into(),
        "getMinutes" => time.minute().into(),
        "getSeconds" => time.second().into(),
        "getMilliseconds" => time.millisecond().into(),
        _ => return None,
    })
}

/// A zone by its name, or by its distance from UTC as `-08:00`.
fn zone_of(text: &str) -> Result<TimeZone, String> {
    let unknown = || format!("unknown time zone {text}");
    let Some((hours, minutes)) = text.split_once(':') else {
        return match text {
            "" | "UTC" => Ok(TimeZone::UTC),
            name => TimeZone::get(name).map_err(|_| unknown()),
        };
    };
    let number = |digits: &str| {
        let parsed = digits.parse::<i32>();
        parsed.map_err(|_| format!("strconv.Atoi: parsing {digits:?}: invalid syntax"))
    };
    let (hour, minute) = (number(hours)?, number(minutes)?);
    // As in cel-go, where the sign of the hours also holds for the minutes.
    let minute = if hours.starts_with('-') {
        minute.saturating_neg()
    } else {
        minute
    };
    let seconds = hour.saturating_mul(3600).saturating_add(minute.saturating_mul(60));
    let offset = Offset::from_seconds(seconds).map_err(|_| unknown())?;
    Ok(offset.to_time_zone())
}
