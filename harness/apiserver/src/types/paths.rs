//! Collects the paths of fields for warnings and errors, with a limit, because one long key above many fields would
//! otherwise multiply the size of a body.

use std::fmt::Display;

/// The maximum number of paths, unless stated otherwise: that of upstream's decoder.
const MAX_COUNT: usize = 100;
/// The maximum size of all paths but the last, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// A bounded list of paths.
#[derive(Debug)]
pub(crate) struct Paths {
    texts: Vec<String>,
    bytes: usize,
    max_count: usize,
}

impl Default for Paths {
    fn default() -> Self {
        Self::at_most(MAX_COUNT)
    }
}

impl Paths {
    /// An empty list for this number of paths.
    pub(crate) fn at_most(max_count: usize) -> Self {
        Self {
            texts: Vec::new(),
            bytes: 0,
            max_count,
        }
    }

    /// Adds a path, unless there are too many.
    pub(crate) fn push(&mut self, path: impl Display) {
        if self.texts.len() < self.max_count && self.bytes < MAX_BYTES {
            let text = path.to_string();
            self.bytes = self.bytes.saturating_add(text.len());
            self.texts.push(text);
        }
    }

    /// The paths in the order in which they were added.
    pub(crate) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_limited_in_number_and_size() {
        let collect = |path: &str, count: usize| {
            let mut paths = Paths::default();
            (0..count).for_each(|_| paths.push(path));
            paths.into_texts().len()
        };
        assert_eq!(collect("a.b", 3), 3);
        assert_eq!(collect("a.b", 100_000), MAX_COUNT);
        assert_eq!(collect(&"x".repeat(1_000_000), 100_000), 1);
    }
}
