//! The files of the previous version: `ledger.json` with the number of its last frame in the first line and the state
//! in the second one, without checksums; `changes.log` without a header.

use durable::lines::{LineError, lines};

use super::damage::Damage;
use super::format::{CHANGES, Frame, LEDGER};
use super::reader::{Contents, FrameReader, Loaded, LogFile};
use super::strict;
use crate::model::{Snapshot, StateError};

/// Whether this is a `ledger.json` of the previous version: its first line is a number.
pub(super) fn is_earlier(ledger: &[u8]) -> bool {
    lines(ledger)
        .next()
        .is_some_and(|line| line.ended && !line.text.is_empty() && line.text.iter().all(u8::is_ascii_digit))
}

/// The ledger in these files.
pub(super) fn load(ledger: &[u8], contents: &Contents) -> Result<Loaded, Damage> {
    let (frame, mut state) = read_ledger(ledger)?;
    let Some(changes) = &contents.changes else {
        return Err(Damage::missing(CHANGES));
    };
    let mut reader = FrameReader::new(CHANGES, frame);
    for line in lines(changes) {
        // The process may have ended after it wrote the whole ledger and before it restarted the log.
        let old = line.decode::<Frame>().is_ok_and(|old| old.number <= frame);
        if !old && let Some(frame) = reader.read(line)? {
            frame.apply_to(&mut state);
        }
    }
    Ok(Loaded {
        state,
        frame: reader.last,
        generation: 0,
        log: LogFile::Earlier(reader.extent(changes)),
    })
}

/// Reads `ledger.json`: the number of its last frame, and the state.
pub(super) fn read_ledger(text: &[u8]) -> Result<(u64, Snapshot), Damage> {
    let mut lines = lines(text);
    let number = lines.next().and_then(|line| {
        let text = std::str::from_utf8(line.text).ok()?;
        text.parse().ok()
    });
    let Some(number) = number else {
        let reason = LineError::Syntax("it is not a number".to_owned());
        return Err(Damage::new(LEDGER, 1, 0, reason));
    };
    let Some(line) = lines.next() else {
        return Err(Damage::new(LEDGER, 2, text.len(), LineError::NoEnd));
    };
    // The error is in the text's only line.
    let damaged = |error: serde_json::Error| {
        let offset = line.offset + error.column().saturating_sub(1);
        Damage::new(LEDGER, 2, offset, LineError::Syntax(error.to_string()))
    };
    let state: Snapshot = strict::read(line.text).map_err(damaged)?;
    if !line.ended {
        return Err(Damage::of(&line, LEDGER, LineError::NoEnd));
    }
    // Later steps may hide a contradiction, which here is damage, because there are no checksums.
    if let Err(StateError::Contradiction(text)) = state.check() {
        return Err(Damage::of(&line, LEDGER, LineError::Syntax(text)));
    }
    match lines.next() {
        None => Ok((number, state)),
        Some(line) => Err(Damage::of(
            &line,
            LEDGER,
            LineError::Syntax("nothing belongs here".to_owned()),
        )),
    }
}
