//! The three patch formats that do not depend on field ownership: JSON patch, merge patch and strategic merge patch.
//! Pure functions over JSON.

mod json;
mod merge;
mod order;
mod strategic;

#[cfg(test)]
mod tests;

use crate::status::ApiError;

pub use self::json::json;
pub(crate) use self::json::json_if_tests_hold;
pub use self::merge::merge;
pub use self::strategic::strategic;

/// The error for a patch that costs too much.
fn too_large(why: String) -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
}
