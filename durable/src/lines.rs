//! Files of lines `CHECKSUM JSON`. The checksum is that of the JSON text, so a damaged line is noticed, and a last line
//! without an end is one whose writer was interrupted.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// Length of a checksum in hexadecimal digits.
const CHECKSUM: usize = 16;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line has no end.
    #[error("the line has no end")]
    NoEnd,
    /// The checksum does not match.
    #[error("the checksum is wrong")]
    Checksum,
    /// The checksum is right, but the content is not what belongs there.
    #[error("the content is not valid: {0}")]
    Syntax(String),
}

/// Appends a line.
///
/// # Errors
/// `content` cannot be written as JSON.
pub fn write_line(to: &mut Vec<u8>, content: &impl Serialize) -> serde_json::Result<()> {
    write_text(to, &serde_json::to_vec(content)?);
    Ok(())
}

/// Appends a line with this JSON text, which contains no line end.
pub fn write_text(to: &mut Vec<u8>, text: &[u8]) {
    to.extend_from_slice(checksum(text).as_bytes());
    to.push(b' ');
    to.extend_from_slice(text);
    to.push(b'\n');
}

/// The first bytes of the SHA-256 of a text, in hexadecimal.
fn checksum(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    digest
        .iter()
        .take(CHECKSUM / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A line of a file.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// Its first byte in the file.
    pub offset: usize,
    /// Without its end.
    pub text: &'a [u8],
    /// Whether it has a line end.
    pub ended: bool,
}

impl<'a> Line<'a> {
    /// The JSON text of a complete line.
    ///
    /// # Errors
    /// The line has no end, or its checksum is wrong.
    pub fn content(&self) -> Result<&'a [u8], LineError> {
        if !self.ended {
            return Err(LineError::NoEnd);
        }
        sealed(self.text).ok_or(LineError::Checksum)
    }

    /// The content of a complete line.
    ///
    /// # Errors
    /// See [`LineError`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, LineError> {
        serde_json::from_slice(self.content()?).map_err(|error| LineError::Syntax(error.to_string()))
    }

    /// Whether only the byte of its line end is wrong.
    pub fn has_damaged_end(&self) -> bool {
        let text = self.text.split_last().map(|(_, text)| text);
        !self.ended && text.is_some_and(|text| sealed(text).is_some())
    }
}

/// The text of a line without its checksum; `None`: the checksum is wrong.
fn sealed(line: &[u8]) -> Option<&[u8]> {
    let (sum, text) = line.split_at_checked(CHECKSUM)?;
    let text = text.strip_prefix(b" ")?;
    (sum == checksum(text).as_bytes()).then_some(text)
}

/// The lines of a file.
pub fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut offset: usize = 0;
    text.split_inclusive(|byte| *byte == b'\n')
        .zip(1..)
        .map(move |(line, number)| {
            let begin = offset;
            offset = offset.saturating_add(line.len());
            let text = line.strip_suffix(b"\n");
            Line {
                number,
                offset: begin,
                text: text.unwrap_or(line),
                ended: text.is_some(),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[&str]) -> Vec<u8> {
        let mut text = Vec::new();
        for value in values {
            write_line(&mut text, value).unwrap();
        }
        text
    }

    fn decoded(text: &[u8]) -> Vec<Result<String, LineError>> {
        lines(text).map(|line| line.decode()).collect()
    }

    #[test]
    fn written_lines_are_read_with_their_places() {
        let text = written(&["a", "b\nc"]);
        assert_eq!(decoded(&text), [Ok("a".to_owned()), Ok("b\nc".to_owned())]);
        let places: Vec<_> = lines(&text).map(|line| (line.number, line.offset)).collect();
        assert_eq!(places, [(1, 0), (2, 21)]);
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let text = written(&["first", "second"]);
        let whole = decoded(&text);
        for cut in 0..text.len() {
            let read = decoded(&text[..cut]);
            let complete = read.iter().filter(|line| line.is_ok()).count();
            assert_eq!(read[..complete], whole[..complete], "cut at {cut}");
            assert!(complete < whole.len() && read.len() <= complete + 1, "cut at {cut}");
        }
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(decoded(&changed).iter().any(Result::is_err), "byte {at}");
        }
    }

    #[test]
    fn a_damaged_line_end_is_not_an_interrupted_write() {
        let mut text = written(&["a"]);
        let last = text.len() - 1;
        text[last] = b'x';
        assert!(lines(&text).all(|line| line.has_damaged_end()));
        assert!(!lines(&text[..last]).any(|line| line.has_damaged_end()));
    }
}
