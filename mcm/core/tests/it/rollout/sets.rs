//! Tables of sets.
