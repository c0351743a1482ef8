//! Base64 as Go decodes it: line breaks do not count, and errors name the position of the first wrong byte.

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The canonical form of a text.
///
/// # Errors
/// The position of the first wrong byte.
pub(super) fn canonical(text: &str) -> Result<String, usize> {
    if let Some(position) = first_error(text.as_bytes()) {
        return Err(position);
    }
    let without_breaks: Vec<u8> = text.bytes().filter(|byte| !is_break(*byte)).collect();
    let decoded = LENIENT.decode(without_breaks).map_err(|_| text.len())?;
    Ok(STANDARD.encode(decoded))
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn first_error(text: &[u8]) -> Option<usize> {
    let mut letters = text.iter().copied().enumerate().filter(|(_, byte)| !is_break(*byte));
    // The number of letters in the current group of four, and where it began to be incomplete.
    let mut group = 0_usize;
    while let Some((at, byte)) = letters.next() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') {
            group = group.saturating_add(1) % 4;
            continue;
        }
        if byte != b'=' || group < 2 {
            return Some(at);
        }
        if group == 2 {
            match letters.next() {
                None => return Some(text.len()),
                Some((_, b'=')) => {}
                Some((at, _)) => return Some(at.saturating_sub(1)),
            }
        }
        return letters.next().map(|(at, _)| at);
    }
    (group > 0).then(|| text.len().saturating_sub(group))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Ok(""))]
    #[case("YQ==", Ok("YQ=="))]
    #[case("YW\nI=\n", Ok("YWI="))]
    #[case("YR==", Ok("YQ=="))]
    #[case("{{ .a }}", Err(0))]
    #[case("YQ=", Err(3))]
    #[case("YWJj YWJj", Err(4))]
    #[case("YWJjYW", Err(4))]
    #[case("YQ==YQ==", Err(4))]
    fn texts_are_decoded_as_in_go(#[case] text: &str, #[case] expected: Result<&str, usize>) {
        assert_eq!(canonical(text), expected.map(str::to_owned));
    }
}
