//! What `drydock doctor` finds.

use serde::Serialize;
use terminal::failure;

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was examined: a stage, a program, `up` or leftovers.
    subject: &'static str,
    /// Whether it can be used, or needs no attention.
    ok: bool,
    message: String,
}

impl Finding {
    pub(super) fn ok(subject: &'static str, message: impl Into<String>) -> Self {
        Self {
            subject,
            ok: true,
            message: message.into(),
        }
    }

    pub(super) fn problem(subject: &'static str, message: impl Into<String>) -> Self {
        Self {
            ok: false,
            ..Self::ok(subject, message)
        }
    }

    /// The finding for people.
    pub(super) fn line(&self) -> String {
        let line = format!("{:9} {}", self.subject, self.message);
        if self.ok { line } else { failure(&line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_an_object() {
        let finding = Finding::problem("kind", "not ready: no Docker engine answers");
        let line = "kind      not ready: no Docker engine answers";
        assert!(finding.line().contains(line), "{finding:?}");
        let object = serde_json::to_value(&finding).unwrap();
        let expected = r#"{"message":"not ready: no Docker engine answers","ok":false,"subject":"kind"}"#;
        assert_eq!(object.to_string(), expected);
    }
}
