//! The parts of the cost model that the estimate and the evaluation share.

use super::expression::ComprehensionKind;

/// The cost of creating a list or a map.
pub(super) const NEW_LIST: u64 = 10;
pub(super) const NEW_MAP: u64 = 30;

/// A tenth, rounded up: the cost of reading each byte of a text.
pub(super) fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// The cost of each step, and once, beyond the expressions of the macro.
pub(super) fn steps(kind: ComprehensionKind) -> (u64, u64) {
    use ComprehensionKind as C;
    match kind {
        C::All => (3, 1),
        C::Exists => (4, 1),
        C::ExistsOne => (2, 2),
        C::Filter => (13, 11),
        C::Map | C::SortBy => (12, 11),
        C::TransformMap => (2, 31),
        C::OptionalMap | C::OptionalFlatMap => (1, 0),
    }
}
