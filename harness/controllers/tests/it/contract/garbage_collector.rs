//! Owners and dependents.
