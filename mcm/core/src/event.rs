//! Kubernetes events that plans record.

/// The type of a Kubernetes event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Expected behavior.
    Normal,
    /// A user may have to act.
    Warning,
}

impl EventType {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
