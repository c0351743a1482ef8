//! Reads a ledger from the content of its files. Every deviation from the format is an error with its place; only an
//! incomplete last line of the log, to whose step no client has a reply, is ignored.

use durable::lines::lines;

use super::damage::{Damage, Reason};
use super::earlier;
use super::format::{CHANGES, Header, Kind, LEDGER, NEXT_CHANGES};
use super::reader::{Contents, FrameReader, Loaded, LogFile};
use crate::model::Snapshot;

/// The ledger in a folder; `None`: it is new.
pub(super) fn load(contents: &Contents) -> Result<Option<Loaded>, Damage> {
    let Some(ledger) = &contents.ledger else {
        // Earlier versions created an empty log before the first step.
        let changes = contents.changes.as_ref().is_some_and(|changes| !changes.is_empty());
        return if changes || contents.audit {
            Err(Damage::missing(LEDGER))
        } else {
            Ok(None)
        };
    };
    if earlier::is_earlier(ledger) {
        return earlier::load(ledger, contents).map(Some);
    }
    let (header, mut state) = read_ledger(ledger)?;
    let (text, file) = log_of(&header, contents)?;
    let mut reader = FrameReader::new(file, header.frame);
    for line in lines(text).skip(1) {
        if let Some(frame) = reader.read(line)? {
            frame.apply_to(&mut state);
        }
    }
    let extent = reader.extent(text);
    Ok(Some(Loaded {
        state,
        frame: reader.last,
        generation: header.generation,
        log: match file {
            NEXT_CHANGES => LogFile::Next(extent),
            _ => LogFile::Current(extent),
        },
    }))
}

/// Reads `ledger.json`.
fn read_ledger(text: &[u8]) -> Result<(Header, Snapshot), Damage> {
    let mut lines = lines(text);
    let header = Header::read(LEDGER, Kind::Ledger, lines.next())?;
    let mut state = header.empty();
    // The small state is one more line.
    let (expected, mut found) = (header.rows.total().saturating_add(1), 0);
    for line in lines {
        let change = line.decode().map_err(|error| Damage::of(&line, LEDGER, error))?;
        if found == expected {
            return Err(Damage::of(
                &line,
                LEDGER,
                Reason::Rows {
                    expected,
                    found: found + 1,
                },
            ));
        }
        state.apply(change);
        found += 1;
    }
    if found != expected || state.counts() != header.rows {
        let end = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        return Err(Damage::new(LEDGER, end, text.len(), Reason::Rows { expected, found }));
    }
    Ok((header, state))
}

/// The log that belongs to `ledger.json` with this header, and the name of its file.
pub(super) fn log_of<'a>(header: &Header, contents: &'a Contents) -> Result<(&'a [u8], &'static str), Damage> {
    // It exists in this generation only until it is renamed.
    if let Some(next) = &contents.next_changes
        && let Ok(log) = Header::read(NEXT_CHANGES, Kind::Changes, lines(next).next())
        && header.owns(&log).is_ok()
    {
        return Ok((next, NEXT_CHANGES));
    }
    let Some(changes) = &contents.changes else {
        return Err(Damage::missing(CHANGES));
    };
    let log = Header::read(CHANGES, Kind::Changes, lines(changes).next())?;
    match header.owns(&log) {
        Ok(()) => Ok((changes, CHANGES)),
        Err(reason) => Err(Damage::new(CHANGES, 1, 0, reason)),
    }
}
