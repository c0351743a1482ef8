//! Mutations of protobuf messages by their fields: lengths remain correct.

use clock::Stream;

use super::{bytes, document, index};

/// Messages are taken apart to this depth.
const MAX_DEPTH: usize = 8;
/// Values of variable length at the limits of types.
const NUMBERS: [u64; 8] = [
    0,
    1,
    127,
    i32::MAX as u64,
    u32::MAX as u64,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

#[derive(Clone, Copy)]
struct Field<'a> {
    tag: u64,
    value: Value<'a>,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Fixed(&'a [u8]),
    Bytes(&'a [u8]),
}

/// Mutates, removes, repeats, swaps or borrows a field. What is no message is mutated as a document or as bytes.
pub(super) fn mutated(input: &[u8], other: &[u8], depth: usize, stream: &mut Stream) -> Vec<u8> {
    let Some(mut fields) = fields(input).filter(|fields| !fields.is_empty() && depth < MAX_DEPTH) else {
        return if stream.chance(0.5) {
            document(input, other, stream)
        } else {
            bytes::mutated(input, other, stream)
        };
    };
    let at = index(fields.len(), stream);
    let changed;
    match stream.below(12) {
        0 => drop(fields.remove(at)),
        1 => {
            let times = [1, 2, 500][index(3, stream)];
            let copies = vec![fields[at]; times];
            fields.splice(at..at, copies);
        }
        2 => {
            let with = index(fields.len(), stream);
            fields.swap(at, with);
        }
        3 => {
            if let Some(borrowed) = self::fields(other).and_then(|mut all| {
                let from = index(all.len(), stream);
                (from < all.len()).then(|| all.swap_remove(from))
            }) {
                fields.insert(at, borrowed);
            }
        }
        4 => fields[at].tag ^= 1 << (3 + stream.below(5)),
        _ => match fields[at].value {
            Value::Number(_) => fields[at].value = Value::Number(NUMBERS[index(NUMBERS.len(), stream)]),
            Value::Fixed(old) => {
                changed = old.iter().map(|byte| byte ^ 0xff).collect::<Vec<u8>>();
                fields[at].value = Value::Fixed(&changed);
            }
            Value::Bytes(old) => {
                changed = mutated(old, other, depth + 1, stream);
                fields[at].value = Value::Bytes(&changed);
            }
        },
    }
    encoded(&fields)
}

/// The fields of a message; `None`: the bytes are none.
fn fields(mut input: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        let tag = number(&mut input)?;
        if tag >> 3 == 0 {
            return None;
        }
        let value = match tag & 7 {
            0 => Value::Number(number(&mut input)?),
            1 => Value::Fixed(take(&mut input, 8)?),
            2 => {
                let length = usize::try_from(number(&mut input)?).ok()?;
                Value::Bytes(take(&mut input, length)?)
            }
            5 => Value::Fixed(take(&mut input, 4)?),
            _ => return None,
        };
        fields.push(Field { tag, value });
    }
    Some(fields)
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(taken)
}

fn number(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(input, 1)?.first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn encoded(fields: &[Field<'_>]) -> Vec<u8> {
    let mut to = Vec::new();
    for field in fields {
        write(&mut to, field.tag);
        match field.value {
            Value::Number(number) => write(&mut to, number),
            Value::Fixed(bytes) => to.extend_from_slice(bytes),
            Value::Bytes(bytes) => {
                write(&mut to, bytes.len() as u64);
                to.extend_from_slice(bytes);
            }
        }
    }
    to
}

fn write(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_apart_and_put_together() {
        let message = b"\x0a\x04\x0a\x02v1\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x1d4byt\x218bytes!!";
        let fields = fields(message).unwrap();
        assert_eq!(fields.len(), 4);
        assert_eq!(encoded(&fields), message);
        assert!(self::fields(b"\x0a\x05abc").is_none());
    }
}
