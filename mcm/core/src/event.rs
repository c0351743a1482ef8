//! Kubernetes events that plans record.

/// The type of a Kubernetes event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// As expected.
    Normal,
    /// A person may want to look.
    Warning,
}

impl EventType {
    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
