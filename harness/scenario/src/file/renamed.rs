//! Names of one release ago, which are accepted with a warning.

/// Renamed steps, with their present names.
pub(super) const RENAMED_STEPS: [(&str, &str); 3] = [
    ("makeVm", "createVm"),
    ("mendZone", "restoreZone"),
    ("someone", "deferred"),
];
/// Renamed conditions, with their present names.
pub(super) const RENAMED_CONDITIONS: [(&str, &str); 3] = [
    ("says", "descriptionContains"),
    ("struck", "faultHits"),
    ("told", "eventCount"),
];

/// Whether a step or condition has another name now.
pub(super) fn is_old(name: &str) -> bool {
    RENAMED_STEPS
        .iter()
        .chain(&RENAMED_CONDITIONS)
        .any(|(old, _)| *old == name)
}
