//! Regular expressions. Compiling one, and searching with a large one, costs more than in the cost model, which counts
//! only the characters of its text.

use std::collections::HashMap;
use std::sync::Arc;

use regex::{Error, Regex, RegexBuilder};

use super::super::Value;
use super::super::cost::tenth;
use super::{Budget, Evaluated, Evaluator, Failure};
use crate::regexes;

/// How many compiled patterns are kept for an object.
const MAX_PATTERNS: usize = 16;
/// The cost of each byte of a new pattern: it can be a class of all letters without regard to case.
const BYTE: u64 = 100;
/// Classes of patterns. One that is larger than the last is rejected.
const CLASSES: [Class; 3] = [
    Class {
        size: 1 << 13,
        compilation: 1000,
        search: 1,
    },
    Class {
        size: 1 << 18,
        compilation: 0,
        search: 8,
    },
    Class {
        size: 1 << 20,
        compilation: 10_000,
        search: 64,
    },
];

/// Patterns up to a size.
#[derive(Clone, Copy)]
struct Class {
    /// The maximum size of the compiled pattern, in bytes.
    size: usize,
    /// The cost of compiling, beyond that of the smaller classes.
    compilation: u64,
    /// The minimum cost of a search for each ten bytes of the text. The model's is a quarter of the pattern's length.
    search: u64,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// See [`Class::search`].
    search: u64,
}

/// The compiled patterns of the expressions of an object.
#[derive(Debug, Default)]
pub(super) struct Patterns(HashMap<Arc<String>, Arc<Pattern>>);

impl Patterns {
    fn keep(&mut self, pattern: &Arc<String>, compiled: &Arc<Pattern>) {
        if self.0.len() == MAX_PATTERNS {
            self.0.clear();
        }
        self.0.insert(Arc::clone(pattern), Arc::clone(compiled));
    }
}

impl Evaluator<'_> {
    /// The compiled pattern. Spends what it costs beyond the cost model to compile it and to search in the text.
    pub(super) fn pattern(&mut self, pattern: &Arc<String>, text: &str) -> Result<Arc<Pattern>, Failure> {
        let compiled = match self.budget.patterns.0.get(pattern) {
            Some(known) => Arc::clone(known),
            None => {
                let new = Arc::new(compile(pattern, self.budget)?);
                self.budget.patterns.keep(pattern, &new);
                new
            }
        };
        let counted = (pattern.len() as u64).div_ceil(4).max(1);
        let more = compiled.search.saturating_sub(counted);
        self.budget.spend(tenth(text.len() as u64).saturating_mul(more))?;
        Ok(compiled)
    }

    /// All matches, at most `most`.
    pub(super) fn find_all(&mut self, pattern: &Arc<String>, text: &str, most: usize) -> Evaluated {
        let pattern = self.pattern(pattern, text)?;
        let mut matches = Vec::new();
        for found in pattern.regex.find_iter(text).take(most) {
            // The search for the next one can read the rest of the text.
            let rest = text.len().saturating_sub(found.end()) as u64;
            self.budget.spend((rest / 100).max(1).saturating_mul(pattern.search))?;
            matches.push(found.as_str().into());
        }
        Ok(Value::List(matches.into()))
    }
}

fn compile(pattern: &str, budget: &mut Budget) -> Result<Pattern, Failure> {
    budget.spend(BYTE.saturating_mul(pattern.len() as u64))?;
    let mut builder = RegexBuilder::new(&regexes::from_go(pattern));
    let mut result = Err(Error::CompiledTooBig(0));
    for class in CLASSES {
        budget.spend(class.compilation)?;
        result = builder.size_limit(class.size).build().map(|regex| Pattern {
            regex,
            search: class.search,
        });
        if !matches!(result, Err(Error::CompiledTooBig(_))) {
            break;
        }
    }
    result.map_err(|problem| Failure::Error(problem.to_string()))
}
