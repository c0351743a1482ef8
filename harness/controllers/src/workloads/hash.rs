//! The short hashes by which templates are told apart, in upstream's alphabet and length.
//!
//! Upstream hashes a dump of Go's memory representation, which nobody else can make; these hash the
//! template's JSON. So the suffixes look alike and serve alike, but are not the same letters.

use serde::Serialize;

/// Letters and digits that form no words and are not mistaken for each other.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template; `collisions` is how many other templates were found under the names that
/// fewer collisions give.
pub fn template_hash(template: &impl Serialize, collisions: Option<i32>) -> String {
    let mut bytes = serde_json::to_vec(template).unwrap_or_default();
    if let Some(collisions) = collisions {
        bytes.extend(collisions.to_le_bytes());
    }
    let mut hash: u32 = 0x811c_9dc5;
    for byte in bytes {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash.to_string()
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_content_and_collisions_only() {
        let hash = template_hash(&"a", None);
        assert_eq!(hash, template_hash(&"a", None));
        assert_ne!(hash, template_hash(&"b", None));
        assert_ne!(hash, template_hash(&"a", Some(1)));
        assert!((1..=10).contains(&hash.len()));
        assert!(hash.bytes().all(|letter| ALPHABET.contains(&letter)));
    }
}
