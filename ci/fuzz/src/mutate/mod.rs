//! Mutations of inputs, drawn from a seeded stream.

mod bytes;
mod json;
mod text;
mod wire;
mod words;

use clock::{Seed, Stream};

/// Inputs are not longer, in bytes; longer ones only take longer.
const MAX_LENGTH: usize = 1 << 20;
/// The first bytes of a Kubernetes object in protobuf.
const MAGIC: &[u8] = b"k8s\0";

/// The structure of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An HTTP request: head, empty line, body.
    Request,
    /// An expression.
    Text,
    /// A YAML document.
    Yaml,
    /// One JSON document, or several separated by a line `---`.
    Json,
    /// A path in the first line, then a binary message.
    Message,
    /// One JSON document in each line.
    Lines,
}

/// The input of a round. It depends only on the arguments.
pub fn input(form: Form, corpus: &[Vec<u8>], target: &str, seed: u64, round: u64) -> Vec<u8> {
    let mut stream = Seed::new(seed).child(target).stream(&format!("round/{round}"));
    let Some(good) = pick(corpus, &mut stream) else {
        return Vec::new();
    };
    let mut input = good.clone();
    for _ in 0..[1, 1, 1, 2, 4][index(5, &mut stream)] {
        let other = pick(corpus, &mut stream).map_or(&[][..], Vec::as_slice);
        input = once(form, &input, other, &mut stream);
        input.truncate(MAX_LENGTH);
    }
    input
}

fn once(form: Form, input: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    match form {
        Form::Text => free(input, other, stream),
        Form::Yaml => yaml(input, other, stream),
        Form::Json => parts(input, other, b"\n---\n", stream),
        Form::Lines => lines(input, other, stream),
        Form::Request => {
            let (head, body) = split(input, b"\n\n");
            let (other_head, other_body) = split(other, b"\n\n");
            if stream.chance(0.15) {
                return join(&text::mutated(head, other_head, stream), b"\n\n", body);
            }
            join(head, b"\n\n", &document(body, other_body, stream))
        }
        Form::Message => {
            let (path, message) = split(input, b"\n");
            let (other_path, other_message) = split(other, b"\n");
            let path = if stream.chance(0.1) { other_path } else { path };
            join(path, b"\n", &message_of(message, other_message, stream))
        }
    }
}

/// A message in protobuf, by its fields or as bytes.
fn message_of(message: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    if stream.chance(0.8) {
        wire::mutated(message, other, 0, stream)
    } else {
        bytes::mutated(message, other, stream)
    }
}

/// A body in any language.
fn document(body: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    if stream.chance(0.7)
        && let Ok(value) = serde_json::from_slice(body)
    {
        let other = serde_json::from_slice(other).unwrap_or_default();
        return json::mutated(value, &other, stream).to_string().into_bytes();
    }
    match (body.strip_prefix(MAGIC), other.strip_prefix(MAGIC)) {
        (Some(message), Some(other)) => join(&[], MAGIC, &message_of(message, other, stream)),
        _ => free(body, other, stream),
    }
}

/// A YAML document; by its structure or as text.
fn yaml(input: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    let read = |input| serde_saphyr::from_str(&String::from_utf8_lossy(input));
    if stream.chance(0.5)
        && let Ok(value) = read(input)
    {
        let changed = json::mutated(value, &read(other).unwrap_or_default(), stream);
        return serde_saphyr::to_string(&changed).unwrap_or_default().into_bytes();
    }
    free(input, other, stream)
}

fn free(input: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    if stream.chance(0.2) || std::str::from_utf8(input).is_err() {
        bytes::mutated(input, other, stream)
    } else {
        text::mutated(input, other, stream)
    }
}

/// Mutates one of several documents.
fn parts(input: &[u8], other: &[u8], separator: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut parts = split_all(input, separator);
    let others = split_all(other, separator);
    let at = index(parts.len(), stream);
    let other = pick(&others, stream).copied().unwrap_or_default();
    let changed = document(parts[at], other, stream);
    parts[at] = &changed;
    parts.join(separator)
}

/// Mutates, removes, repeats or swaps lines.
fn lines(input: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut lines = split_all(input, b"\n");
    let (at, with) = (index(lines.len(), stream), index(lines.len(), stream));
    match stream.below(10) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(with, lines[at]),
        2 => lines.swap(at, with),
        _ => return parts(input, other, b"\n", stream),
    }
    lines.join(&b'\n')
}

fn pick<'a, T>(from: &'a [T], stream: &mut Stream) -> Option<&'a T> {
    from.get(index(from.len(), stream))
}

/// An index below `length`; zero if there is none.
fn index(length: usize, stream: &mut Stream) -> usize {
    usize::try_from(stream.below(length.max(1) as u64)).unwrap_or(0)
}

/// The position of `what` in the input.
pub(crate) fn find(input: &[u8], what: &[u8]) -> Option<usize> {
    input.windows(what.len()).position(|window| window == what)
}

/// What precedes and follows the separator; everything precedes an absent one.
pub(crate) fn split<'a>(input: &'a [u8], separator: &[u8]) -> (&'a [u8], &'a [u8]) {
    match find(input, separator) {
        Some(at) => (&input[..at], &input[at + separator.len()..]),
        None => (input, &[]),
    }
}

fn split_all<'a>(mut input: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = find(input, separator) {
        parts.push(&input[..at]);
        input = &input[at + separator.len()..];
    }
    parts.push(input);
    parts
}

fn join(before: &[u8], separator: &[u8], after: &[u8]) -> Vec<u8> {
    [before, separator, after].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rounds_differ_and_depend_on_nothing_else() {
        let corpus = [b"POST /a\nb: c\n\n{\"d\":[1,2]}".to_vec()];
        for form in [
            Form::Request,
            Form::Text,
            Form::Yaml,
            Form::Json,
            Form::Message,
            Form::Lines,
        ] {
            let inputs =
                |seed| (0..200).map(move |round| input(form, &[b"{\"d\":[1,2]}\n\n{}".to_vec()], "t", seed, round));
            assert!(inputs(1).eq(inputs(1)));
            assert!(inputs(1).collect::<BTreeSet<_>>().len() > 100, "{form:?}");
            assert!(!inputs(1).eq(inputs(2)));
            assert!(input(form, &corpus, "t", 1, 0) != corpus[0]);
        }
    }
}
