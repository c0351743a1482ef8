//! Finds the times of the lines of logs, and limits their size.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use mcm_api::GoDuration;

use crate::limits;
use crate::model::{Dropped, Log, LogLine, Micros};

/// The maximum size of all logs in a record, in bytes.
const MOST_BYTES: usize = 400_000;
/// The maximum length of a line, in characters. The rest is cut off.
const LONGEST: usize = 1000;
/// The number of words of a line among which klog's time is.
const KLOG_WORDS: usize = 8;
/// The name of dropped lines in a record.
const DROPPED: &str = "lines of logs";

/// The logs of a run that started at `started`, each with the name of its file and its content. Of logs that are too large
/// together, the middle is dropped.
pub(crate) fn of<'a>(
    files: impl Iterator<Item = (&'a str, &'a [u8])>,
    started: Timestamp,
    dropped: &mut Vec<Dropped>,
) -> Vec<Log> {
    let mut logs: Vec<Log> = files
        .filter_map(|(name, content)| parsed(name, content, started))
        .collect();
    // The smallest first: what they leave of their share is for the others.
    logs.sort_by_key(size);
    let (mut room, mut left) = (MOST_BYTES, logs.len());
    for log in &mut logs {
        let count = thin_out(&mut log.lines, room / left);
        if count > 0 {
            limits::add(dropped, DROPPED, count);
        }
        room = room.saturating_sub(size(log));
        left -= 1;
    }
    logs.sort_by(|one, other| one.name.cmp(&other.name));
    logs
}

fn size(log: &Log) -> usize {
    log.lines.iter().map(cost).sum()
}

/// The size of a line in the record.
fn cost(line: &LogLine) -> usize {
    line.text.len() + 24
}

/// Drops lines from the middle until the others have at most `most` bytes; returns how many.
fn thin_out(lines: &mut Vec<LogLine>, most: usize) -> u64 {
    let total: usize = lines.iter().map(cost).sum();
    if total <= most {
        return 0;
    }
    let first = fitting(lines.iter(), most / 2);
    let last = fitting(lines.iter().rev(), most / 2);
    let end = lines.len().saturating_sub(last).max(first);
    lines.drain(first..end).count() as u64
}

/// How many of these lines have at most `most` bytes.
fn fitting<'a>(lines: impl Iterator<Item = &'a LogLine>, most: usize) -> usize {
    let sums = lines.scan(0, |sum, line| {
        *sum += cost(line);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= most).count()
}

/// The log in a file; `None`: it is none, or it is empty.
fn parsed(name: &str, content: &[u8], started: Timestamp) -> Option<Log> {
    let stem = name.strip_suffix(".log").or((name == "log.txt").then_some("log"))?;
    let mut at = Micros(0);
    let text = String::from_utf8_lossy(content);
    let lines = text.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let (time, rest) = timed(line, started);
        at = time.unwrap_or(at);
        LogLine {
            at,
            text: rest
                .chars()
                .filter(|letter| !letter.is_control() || *letter == '\t')
                .take(LONGEST)
                .collect(),
        }
    });
    let lines: Vec<LogLine> = lines.collect();
    (!lines.is_empty()).then(|| Log {
        name: stem.to_owned(),
        lines,
    })
}

/// The time of a line, and the rest of it. A time after other words, such as in a JSON object, stays in the rest.
fn timed(line: &str, started: Timestamp) -> (Option<Micros>, &str) {
    let since = |time: Timestamp| {
        let micros = time.duration_since(started).as_micros();
        Micros(u64::try_from(micros).unwrap_or_default())
    };
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    if let Some(passed) = first
        .strip_prefix('+')
        .and_then(|passed| passed.parse::<GoDuration>().ok())
    {
        let micros = passed.0.as_micros();
        return (
            Some(Micros(u64::try_from(micros).unwrap_or(u64::MAX))),
            rest.trim_start(),
        );
    }
    if let Ok(time) = first.parse::<Timestamp>() {
        return (Some(since(time)), rest.trim_start());
    }
    let time = klog(line, started).or_else(|| within(line));
    (time.map(since), line)
}

/// The time of a line of klog, `I0102 15:04:05.000000 …`, also within another line, as in the journal of a node. It has no
/// year: the nearest time to the start of the run counts.
fn klog(line: &str, started: Timestamp) -> Option<Timestamp> {
    let words: Vec<&str> = line.split_whitespace().take(KLOG_WORDS).collect();
    words.windows(2).find_map(|pair| {
        let [day, clock] = pair else { return None };
        let day = day.strip_prefix(['I', 'W', 'E', 'F']).filter(|day| day.len() == 4)?;
        let (month, day) = (day.get(..2)?.parse().ok()?, day.get(2..)?.parse().ok()?);
        let clock: jiff::civil::Time = clock.parse().ok()?;
        let year = started.to_zoned(TimeZone::UTC).year();
        let times = [year - 1, year, year + 1].into_iter().filter_map(|year| {
            let date = jiff::civil::Date::new(year, month, day).ok()?;
            Some(date.to_datetime(clock).to_zoned(TimeZone::UTC).ok()?.timestamp())
        });
        times.min_by_key(|time| time.duration_since(started).abs())
    })
}

/// The first time in a line that has a date, in UTC if it names no zone: `[2026-01-02 15:04:05,000] …`,
/// `{"ts":"2026-01-02T15:04:05Z",…}`.
fn within(line: &str) -> Option<Timestamp> {
    let is_part = |letter: char| letter.is_ascii_digit() || "-:.,TZ+ ".contains(letter);
    let mut rest = line;
    for _ in 0..8 {
        let begin = rest.find(|letter: char| letter.is_ascii_digit())?;
        rest = rest.get(begin..)?;
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (candidate, after) = rest.split_at(end);
        let text = candidate.trim_end_matches([' ', '-', ':', '.', '+']).replace(',', ".");
        if let Ok(time) = text.parse::<Timestamp>() {
            return Some(time);
        }
        if let Ok(time) = text.parse::<DateTime>()
            && text.len() >= "2026-01-02 15:04:05".len()
        {
            return Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp());
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn started() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn of_file(name: &str, content: &str) -> Option<Log> {
        parsed(name, content.as_bytes(), started())
    }

    #[rstest]
    #[case::of_mcm("2026-03-01T12:00:01.5Z  INFO mcm: up", 1_500_000, "INFO mcm: up")]
    #[case::before_the_start("2026-03-01T11:59:00Z  INFO mcm: up", 0, "INFO mcm: up")]
    #[case::in_virtual_time("+1m2.25s INFO mcm: up", 62_250_000, "INFO mcm: up")]
    #[case::of_klog(
        "I0301 12:00:02.000001       1 main.go:1] up",
        2_000_001,
        "I0301 12:00:02.000001       1 main.go:1] up"
    )]
    #[case::of_kopf(
        "[2026-03-01 12:00:03,250] kopf [INFO] up",
        3_250_000,
        "[2026-03-01 12:00:03,250] kopf [INFO] up"
    )]
    #[case::of_klog_in_a_journal(
        "Mar 01 12:00:02 n-1 kubelet[7]: E0301 12:00:02.5 1 kubelet.go:1] down",
        2_500_000,
        "Mar 01 12:00:02 n-1 kubelet[7]: E0301 12:00:02.5 1 kubelet.go:1] down"
    )]
    #[case::of_python(
        "2026-03-01 12:00:03,250 - name - INFO - up",
        3_250_000,
        "2026-03-01 12:00:03,250 - name - INFO - up"
    )]
    #[case::in_json(
        r#"{"level":"info","ts":"2026-03-01T12:00:04Z","msg":"up"}"#,
        4_000_000,
        r#"{"level":"info","ts":"2026-03-01T12:00:04Z","msg":"up"}"#
    )]
    #[case::of_another_zone("2026-03-01T13:00:05+01:00 up", 5_000_000, "up")]
    #[case::without_a_time("listening on 127.0.0.1:8080", 0, "listening on 127.0.0.1:8080")]
    #[case::a_number("20260301 machines", 0, "20260301 machines")]
    fn the_time_of_a_line_is_found(#[case] line: &str, #[case] at: u64, #[case] text: &str) {
        let log = of_file("mcm.log", line).unwrap();
        assert_eq!(
            log.lines,
            [LogLine {
                at: Micros(at),
                text: text.to_owned()
            }]
        );
    }

    #[test]
    fn a_run_over_new_year_has_lines_of_both_years() {
        let started = "2026-12-31T23:59:58Z".parse().unwrap();
        let content = "I1231 23:59:59.0 1 a.go:1] old\nI0101 00:00:01.0 1 a.go:1] new";
        let log = parsed("mcm.log", content.as_bytes(), started).unwrap();
        let times: Vec<u64> = log.lines.iter().map(|line| line.at.0).collect();
        assert_eq!(times, [1_000_000, 3_000_000]);
    }

    #[test]
    fn a_line_without_a_time_has_that_of_the_line_before() {
        let log = of_file("mcm.log", "+1s panicked:\n\n  at main.rs:1\n+2s up\n").unwrap();
        let times: Vec<u64> = log.lines.iter().map(|line| line.at.0).collect();
        assert_eq!(times, [1_000_000, 1_000_000, 2_000_000]);
    }

    #[rstest]
    #[case::of_a_process("mcm-0.log", Some("mcm-0"))]
    #[case::of_an_earlier_container("logs/mcm-x.previous.log", Some("logs/mcm-x.previous"))]
    #[case::of_a_simulated_world("log.txt", Some("log"))]
    #[case::a_trace("trace.txt", None)]
    fn only_logs_count(#[case] file: &str, #[case] name: Option<&str>) {
        assert_eq!(of_file(file, "up").map(|log| log.name).as_deref(), name);
        assert_eq!(of_file(file, "\n \n"), None);
    }

    #[test]
    fn the_middle_of_large_logs_is_dropped() {
        let line = |number: usize| format!("+{number}s {}\n", "x".repeat(100));
        let large: String = (0..10_000).map(line).collect();
        let files = [
            ("a.log", "+1s small\n".as_bytes()),
            ("b.log", large.as_bytes()),
            ("c.log", large.as_bytes()),
        ];
        let mut dropped = Vec::new();
        let logs = of(files.into_iter(), started(), &mut dropped);
        assert_eq!(
            logs.iter().map(|log| log.name.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        assert_eq!(logs[0].lines.len(), 1);
        for log in &logs[1..] {
            let ends = [log.lines.first(), log.lines.last()].map(|line| line.unwrap().at.0);
            assert_eq!(ends, [0, 9_999_000_000]);
        }
        let sizes: usize = logs.iter().map(size).sum();
        assert!(sizes <= MOST_BYTES && sizes > MOST_BYTES * 9 / 10, "{sizes}");
        let kept: usize = logs.iter().map(|log| log.lines.len()).sum();
        assert_eq!(
            (dropped[0].what.as_str(), dropped[0].count),
            (DROPPED, 20_001 - kept as u64)
        );
    }

    #[test]
    fn long_lines_and_control_characters_are_cut() {
        let log = of_file("mcm.log", &format!("\u{1b}[31m{}", "é".repeat(2000))).unwrap();
        assert_eq!(log.lines[0].text.chars().count(), LONGEST);
        assert!(log.lines[0].text.starts_with("[31m"));
    }
}
