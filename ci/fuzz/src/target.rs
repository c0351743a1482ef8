//! What a fuzz target is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::mutate::Form;

/// The stack size of a target's thread in bytes: that of a server's threads.
pub const STACK: usize = 2 << 20;

/// What a target did with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was valid.
    Accepted,
    /// It was refused, which changed nothing.
    Refused,
}

/// A property that an input violates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    /// A violation with that description.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Runs inputs, and can keep state from one to the next.
pub type Runner = Box<dyn FnMut(&[u8]) -> Result<Outcome, Violation>>;

/// A part of the system that receives bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name on the command line and of the folder of the corpus.
    pub name: &'static str,
    /// How inputs are mutated.
    pub form: Form,
    /// Valid inputs in addition to the committed ones: binary messages, built from types.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Creates a runner.
    pub start: fn() -> Result<Runner, Violation>,
}

/// Runs an input; a panic is a violation.
///
/// # Errors
/// The violated property.
pub fn execute(runner: &mut Runner, input: &[u8]) -> Result<Outcome, Violation> {
    catch_unwind(AssertUnwindSafe(|| runner(input))).unwrap_or_else(|panic| {
        Err(Violation::new(format!(
            "panic: {}",
            logs::panic_message(panic.as_ref())
        )))
    })
}

/// Runs `action` on a thread with the stack of a server's threads.
///
/// # Errors
/// The thread cannot be started, or `action` panics.
pub fn on_small_stack<T: Send + 'static>(action: impl FnOnce() -> T + Send + 'static) -> Result<T, Violation> {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(action);
    let thread = thread.map_err(|error| Violation::new(format!("no thread: {error}")))?;
    thread
        .join()
        .map_err(|panic| Violation::new(format!("panic: {}", logs::panic_message(panic.as_ref()))))
}
