//! Mutations of text by its words and signs.

use clock::Stream;

use super::{index, pick, words};

/// Removes, repeats, swaps, replaces, inserts or nests some words. What is not text is returned as it is.
pub(super) fn mutated(input: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    let Ok(input) = std::str::from_utf8(input) else {
        return input.to_vec();
    };
    let other = String::from_utf8_lossy(other);
    let mut words = split(input);
    let from_other = split(&other);
    let at = index(words.len() + 1, stream);
    let within = at.min(words.len().saturating_sub(1));
    let to = (within + 1 + index(8, stream)).min(words.len());
    let word = *pick(&words::ALL, stream).unwrap_or(&"");
    let repeated;
    match stream.below(10) {
        0 if !words.is_empty() => drop(words.drain(within..to)),
        1 if !words.is_empty() => words[within] = word,
        2 if !words.is_empty() => words.swap(within, to - 1),
        3 => {
            let from = index(from_other.len() + 1, stream);
            let to = (from + 1 + index(12, stream)).min(from_other.len());
            words.splice(at..at, from_other[from..to].iter().copied());
        }
        4 | 5 => {
            // Nesting around a part.
            let (open, close) = words::NESTS[index(words::NESTS.len(), stream)];
            let depth = [1, 12, 70, 130, 3000, 12_000][index(6, stream)];
            repeated = (open.repeat(depth), close.repeat(depth));
            words.insert(to, &repeated.1);
            words.insert(within, &repeated.0);
        }
        6 => {
            let times = [1, 2, 40, 3000][index(4, stream)];
            let chunk = words[within..to].repeat(times);
            words.splice(at..at, chunk);
        }
        7 => {
            // Another number where there is one.
            let numbers: Vec<usize> = (0..words.len())
                .filter(|at| words[*at].starts_with(|first: char| first.is_ascii_digit()))
                .collect();
            if let Some(at) = pick(&numbers, stream) {
                words[*at] = words::NUMBERS[index(words::NUMBERS.len(), stream)];
            }
        }
        _ => words.insert(at, word),
    }
    words.concat().into_bytes()
}

/// Words, and single other characters.
fn split(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |sign: char| sign.is_ascii_alphanumeric();
        let length = if is_word(first) {
            rest.find(|sign| !is_word(sign)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        words.push(word);
        rest = after;
    }
    words
}
