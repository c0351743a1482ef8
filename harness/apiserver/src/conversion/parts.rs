//! The parts of a list that a webhook converts in one call each: it must answer in time, and with a limited size.

use std::io;

use serde_json::Value;

/// The most objects of a part.
const MOST: usize = 100;
/// The most bytes of a part with several objects.
const LARGEST: usize = 1024 * 1024;

/// The objects in parts, in their order.
pub(super) fn parts(objects: Vec<&mut Value>) -> Vec<Vec<&mut Value>> {
    let mut parts: Vec<Vec<&mut Value>> = Vec::new();
    let mut left = 0_usize;
    for object in objects {
        let size = size_of(object);
        match parts.last_mut().filter(|part| part.len() < MOST && size <= left) {
            Some(part) => {
                part.push(object);
                left = left.saturating_sub(size);
            }
            None => {
                parts.push(vec![object]);
                left = LARGEST.saturating_sub(size);
            }
        }
    }
    parts
}

/// The size of a value in JSON.
fn size_of(value: &Value) -> usize {
    let mut counted = Counted(0);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(0, 10, &[])]
    #[case::few(3, 10, &[3])]
    #[case::many(250, 10, &[100, 100, 50])]
    #[case::large(5, 400 * 1024, &[2, 2, 1])]
    #[case::larger_than_a_part(2, 2 * 1024 * 1024, &[1, 1])]
    fn parts_are_limited(#[case] count: usize, #[case] size: usize, #[case] expected: &[usize]) {
        let mut objects = vec![Value::from("x".repeat(size)); count];
        let parts = parts(objects.iter_mut().collect());
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), expected);
    }
}
