//! The hashes in names of template-specific objects, in upstream's alphabet and length.
//!
//! Upstream hashes a dump of Go's memory representation, which other languages cannot reproduce. This module
//! hashes the template's JSON, so the suffixes have the same form but not the same values.

use serde::Serialize;

/// Letters and digits that form no words and are hard to confuse.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template; `collisions` is the number of earlier name collisions with other templates.
#[expect(clippy::arithmetic_side_effects, reason = "the divisor is a constant above 0")]
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
