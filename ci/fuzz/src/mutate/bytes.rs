//! Mutations of bytes.

use clock::Stream;

use super::index;

/// Changes, removes, inserts or repeats some bytes.
pub(super) fn mutated(input: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let at = index(bytes.len() + 1, stream);
    let byte = stream.bits().to_le_bytes()[0];
    match stream.below(8) {
        0 if at < bytes.len() => bytes[at] = byte,
        1 if at < bytes.len() => bytes[at] ^= 1 << (byte % 8),
        2 if at < bytes.len() => drop(bytes.remove(at)),
        // The largest numbers of variable length.
        3 => drop(bytes.splice(at..at, [[0xff; 9].as_slice(), &[1]].concat())),
        4 => {
            let from = index(other.len() + 1, stream);
            let to = (from + index(40, stream)).min(other.len());
            bytes.splice(at..at, other[from..to].iter().copied());
        }
        5 => {
            let to = (at + 1 + index(16, stream)).min(bytes.len());
            let times = [1, 2, 100, 3000][index(4, stream)];
            let chunk = bytes[at..to].repeat(times);
            bytes.splice(at..at, chunk);
        }
        6 => bytes.truncate(at),
        _ => bytes.insert(at, byte),
    }
    bytes
}
