//! Tables of inputs and errors.
