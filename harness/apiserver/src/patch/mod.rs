//! The three patch formats that do not depend on field ownership: JSON patch, merge patch and strategic merge patch.
//! Pure functions over JSON.

mod json;
mod merge;
mod order;
mod strategic;

#[cfg(test)]
mod tests;

pub use self::json::json;
pub use self::merge::merge;
pub use self::strategic::strategic;
