//! What remains of damaged files: the rows whose lines are sound, and the steps of the log until its first damage.
//!
//! Later steps are not applied, although their lines may be sound: the result would be a state that never existed.

use std::fmt;

use durable::lines::lines;
use jiff::Timestamp;

use super::damage::{Damage, Reason};
use super::earlier;
use super::format::{CHANGES, Frame, Header, Kind, LEDGER, NEXT_CHANGES};
use super::load::log_of;
use super::reader::{Contents, FrameReader};
use crate::model::{Change, RowCounts, Snapshot, StateError};

/// The settings that are lost with their row.
const SETTINGS: &str = "all rules, holds, failures of zones, limits and credentials set at run time";

/// A state that is as complete as possible, and what it does not contain.
#[derive(Debug)]
pub(super) struct Salvage {
    pub(super) state: Snapshot,
    /// Number of its last frame.
    pub(super) frame: u64,
    /// The last generation of the files.
    pub(super) generation: u64,
    pub(super) losses: Vec<Loss>,
}

/// A place in a file: the line's number and the position of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The position of its first byte.
    pub offset: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} (line {})", self.offset, self.line)
    }
}

/// A step of the ledger, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub number: u64,
    /// Its time.
    pub time: Timestamp,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} ({})", self.number, self.time)
    }
}

/// Something that a repair cannot keep.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Rows of `ledger.json`.
    Rows {
        /// How many of each kind.
        rows: RowCounts,
        /// Whether the settings are among them.
        settings: bool,
        /// The damaged lines; none: the file or its end is missing.
        places: Vec<Place>,
        /// The state that contained them.
        step: Step,
    },
    /// The end of `changes.log`.
    Steps {
        /// The first damage.
        damage: Damage,
        /// Number of damaged lines.
        damaged: usize,
        /// Number of sound lines after the first damage.
        sound: usize,
        /// The last readable step.
        last: Option<Step>,
    },
    /// All steps of `changes.log`.
    Log {
        /// Why the file is not used.
        damage: Damage,
        /// The last step before them.
        after: Step,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows {
                rows,
                settings,
                places,
                step,
            } => {
                write!(f, "{LEDGER}")?;
                for (index, place) in places.iter().enumerate() {
                    write!(f, "{} {place}", if index == 0 { "," } else { " and" })?;
                }
                let mut parts = rows.present();
                if *settings {
                    parts.push(SETTINGS.to_owned());
                }
                let parts = if parts.is_empty() {
                    "no row".to_owned()
                } else {
                    parts.join(", ")
                };
                write!(f, ": {parts}, of {step}, except what {CHANGES} contains anew")
            }
            Self::Steps {
                damage,
                damaged,
                sound,
                last,
            } => {
                write!(
                    f,
                    "{} from byte {} (line {}) to its end: {damaged} damaged and {sound} sound lines",
                    damage.file, damage.offset, damage.line
                )?;
                match last {
                    Some(last) => write!(f, ", up to {last}"),
                    None => Ok(()),
                }
            }
            Self::Log { damage, after } => {
                write!(f, "every step after {after}; {}: {}", damage.file, damage.reason)
            }
        }
    }
}

/// Why nothing can be recovered of damaged files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrecoverable {
    /// No header can be read.
    #[error(
        "neither {LEDGER} nor {CHANGES} has a sound header; restore the folder from a copy, or start with an empty one"
    )]
    NoHeader,
    /// The whole state of an earlier version is one line, which cannot be read.
    #[error("its state is one line; restore the folder from a copy, or start with an empty one")]
    Unreadable,
    /// The remaining rows contradict each other, so a cloud cannot start with them.
    #[error(transparent)]
    Contradictory(#[from] StateError),
}

/// What can be read of the files.
///
/// # Errors
/// Nothing can be read, or the remaining rows contradict each other.
pub(super) fn salvage(contents: &Contents) -> Result<Salvage, Unrecoverable> {
    let mut salvage = match &contents.ledger {
        Some(ledger) if earlier::is_earlier(ledger) => salvage_earlier(ledger, contents)?,
        _ => salvage_current(contents)?,
    };
    salvage.state.raise_last_ordinal();
    salvage.state.check()?;
    Ok(salvage)
}

/// What can be read of `ledger.json`.
#[derive(Debug, Default)]
struct Rows {
    header: Option<Header>,
    changes: Vec<Change>,
    damaged: Vec<Place>,
}

impl Rows {
    fn read(text: &[u8]) -> Self {
        let mut found = Self::default();
        for line in lines(text) {
            if line.number == 1 {
                found.header = Header::read(LEDGER, Kind::Ledger, Some(line)).ok();
                continue;
            }
            match line.decode() {
                Ok(change) => found.changes.push(change),
                Err(_) => found.damaged.push(Place {
                    line: line.number,
                    offset: line.offset,
                }),
            }
        }
        found
    }

    fn apply_to(self, state: &mut Snapshot) -> bool {
        let mut settings = false;
        for change in self.changes {
            settings |= matches!(change, Change::Small(_));
            state.apply(change);
        }
        settings
    }
}

fn salvage_current(contents: &Contents) -> Result<Salvage, Unrecoverable> {
    let rows = contents.ledger.as_deref().map(Rows::read).unwrap_or_default();
    let (header, log) = match &rows.header {
        Some(header) => (header.clone(), log_for(header, contents)),
        None => {
            let (header, log) = log_with_header(contents).ok_or(Unrecoverable::NoHeader)?;
            (header, Ok(log))
        }
    };
    let mut state = header.empty();
    let places = rows.damaged.clone();
    let settings = !rows.apply_to(&mut state);
    let step = Step {
        number: header.frame,
        time: header.time,
    };
    let missing = header.rows.beyond(&state.counts());
    let mut losses = Vec::new();
    if settings || !places.is_empty() || missing.total() > 0 {
        losses.push(Loss::Rows {
            rows: missing,
            settings,
            places,
            step,
        });
    }
    let mut frame = header.frame;
    match log {
        Ok((text, file)) => {
            let mut reader = FrameReader::new(file, header.frame);
            losses.extend(apply_log(text, 1, &mut reader, &mut state, |_| false));
            frame = reader.last;
        }
        Err(damage) => losses.push(Loss::Log { damage, after: step }),
    }
    Ok(Salvage {
        state,
        frame,
        generation: header.generation,
        losses,
    })
}

/// The log of this `ledger.json`. A log with a damaged header belongs to it if its first frame is the next one.
fn log_for<'a>(header: &Header, contents: &'a Contents) -> Result<(&'a [u8], &'static str), Damage> {
    let damage = match log_of(header, contents) {
        Ok(log) => return Ok(log),
        Err(damage) => damage,
    };
    let damaged = matches!(damage.reason, Reason::Line(_));
    match &contents.changes {
        Some(text) if damaged => {
            let first = lines(text).nth(1).and_then(|line| line.decode::<Frame>().ok());
            let follows = first.is_some_and(|first| Some(first.number) == header.frame.checked_add(1));
            follows.then_some((text.as_slice(), CHANGES)).ok_or(damage)
        }
        _ => Err(damage),
    }
}

/// A log with a sound header, which replaces the one of `ledger.json`.
fn log_with_header(contents: &Contents) -> Option<(Header, (&[u8], &'static str))> {
    let logs = [(&contents.changes, CHANGES), (&contents.next_changes, NEXT_CHANGES)];
    logs.into_iter().find_map(|(text, file)| {
        let text = text.as_deref()?;
        let header = Header::read(file, Kind::Changes, lines(text).next()).ok()?;
        Some((header, (text, file)))
    })
}

/// Applies the lines after the first `skip` ones until the first damage; returns the loss.
fn apply_log(
    text: &[u8],
    skip: usize,
    reader: &mut FrameReader,
    state: &mut Snapshot,
    included: impl Fn(u64) -> bool,
) -> Option<Loss> {
    let mut first = None;
    let (mut damaged, mut sound, mut last) = (0, 0, None);
    for line in lines(text).skip(skip) {
        if first.is_none() {
            if line.decode::<Frame>().is_ok_and(|frame| included(frame.number)) {
                continue;
            }
            match reader.read(line) {
                Ok(Some(frame)) => frame.apply_to(state),
                Ok(None) => {}
                Err(damage) => first = Some(damage),
            }
        }
        if first.is_some() {
            match line.decode::<Frame>() {
                Ok(frame) => {
                    sound += 1;
                    last = Some(Step {
                        number: frame.number,
                        time: frame.time,
                    });
                }
                Err(_) => damaged += 1,
            }
        }
    }
    first.map(|damage| Loss::Steps {
        damage,
        damaged,
        sound,
        last,
    })
}

fn salvage_earlier(ledger: &[u8], contents: &Contents) -> Result<Salvage, Unrecoverable> {
    let (frame, mut state) = earlier::read_ledger(ledger).map_err(|_| Unrecoverable::Unreadable)?;
    let mut reader = FrameReader::new(CHANGES, frame);
    let loss = match &contents.changes {
        Some(text) => apply_log(text, 0, &mut reader, &mut state, |number| number <= frame),
        None => Some(Loss::Log {
            damage: Damage::missing(CHANGES),
            after: Step {
                number: frame,
                time: state.time,
            },
        }),
    };
    Ok(Salvage {
        state,
        frame: reader.last,
        generation: 0,
        losses: loss.into_iter().collect(),
    })
}
