//! The three kinds of patches that need no knowledge of who owns a field: JSON patch, merge patch
//! and strategic merge patch. Pure functions over JSON; server-side apply lives elsewhere.

mod json;
mod merge;
mod order;
mod strategic;

#[cfg(test)]
mod tests;

pub use self::json::json;
pub use self::merge::merge;
pub use self::strategic::strategic;
