//! A machine's parsed last operation. The description is parsed once per decision; the texts that this controller
//! writes about a creation, a deletion or an update of a VM are rendered here and in
//! [`deletion_note`](super::deletion_note).

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::machine::LastOperation;
use mcm_api::{Code, Operation, State};

use super::deletion_note::DeletionNote;
use super::stage::Stage;

const CALL_FAILED: &str = "Cloud provider message - ";
const INITIALIZATION_FAILED: &str = "Provider error: ";
const INITIALIZE_STAGE: &str = "Initialize VM Instance";
const ABORTED: &str = "Aborting operation. Initiate VM deletion";
const STATUS_REFUSED: &str =
    "Error occurred with decoding machine error status while getting VM status, aborting without retry.";
const UPDATE_REFUSED: (&str, &str) = (
    "The driver cannot update VMs (it has no UpdateMachine); provider spec ",
    " is not applied. Give the class a new name to replace the machines",
);

/// The last operation of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LastStep {
    /// The operation; `None`: not set.
    pub operation: Option<Operation>,
    /// Its state; `None`: not set.
    pub state: Option<State>,
    /// The code of the failed driver call; `None`: there is none, or it is unknown to this version.
    pub code: Option<Code>,
    /// When the operation or its state changed.
    pub at: Option<Time>,
    /// The parsed description.
    pub text: StepText,
}

impl LastStep {
    pub(super) fn parse(operation: &LastOperation) -> Self {
        Self {
            operation: operation.operation.clone(),
            state: operation.state.clone(),
            code: Code::from_name(&operation.error_code),
            at: operation.last_update_time.clone(),
            text: StepText::parse(&operation.description),
        }
    }

    pub(super) fn failed(&self) -> bool {
        self.state == Some(State::Failed)
    }
}

/// The retry periods that a description can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryPeriod {
    Short,
    Medium,
    Long,
}

/// The description of a last operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepText {
    /// The VM exists and its node has not joined.
    CreatingVm,
    /// The VM exists and there is no target cluster.
    VmCreated,
    /// The VM had the node name of an older Node.
    StaleNode,
    /// A driver call other than InitializeMachine failed.
    CallFailed { error: String },
    /// InitializeMachine failed.
    InitializationFailed { error: String },
    /// A deletion is in `stage`.
    Deletion {
        stage: Stage,
        /// The note in front of the stage's phrase.
        note: Option<DeletionNote>,
    },
    /// UpdateMachine is about to apply another provider spec.
    UpdatingVm,
    /// UpdateMachine has applied another provider spec.
    VmUpdated,
    /// The driver has no UpdateMachine.
    UpdateRefused {
        /// The hash of the provider spec.
        spec: String,
    },
    /// Any other text: of the health check, of upstream or of another version. Its prefix and suffix still select stage
    /// and retry period.
    Unknown(String),
}

impl StepText {
    /// A deletion in `stage`.
    pub(super) fn deletion(stage: Stage, note: impl Into<Option<DeletionNote>>) -> Self {
        Self::Deletion {
            stage,
            note: note.into(),
        }
    }

    /// The value that is rendered as `text`.
    pub(super) fn parse(text: &str) -> Self {
        let fixed = [
            Self::CreatingVm,
            Self::VmCreated,
            Self::StaleNode,
            Self::UpdatingVm,
            Self::VmUpdated,
        ];
        if let Some(known) = fixed.into_iter().find(|known| known.fixed() == Some(text)) {
            return known;
        }
        if let Some(error) = text.strip_prefix(CALL_FAILED) {
            return Self::CallFailed {
                error: error.to_owned(),
            };
        }
        if let Some(rest) = text.strip_prefix(INITIALIZATION_FAILED)
            && let Some(error) = rest
                .strip_suffix(INITIALIZE_STAGE)
                .and_then(|rest| rest.strip_suffix(". "))
        {
            return Self::InitializationFailed {
                error: error.to_owned(),
            };
        }
        let (start, end) = UPDATE_REFUSED;
        if let Some(spec) = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)) {
            return Self::UpdateRefused { spec: spec.to_owned() };
        }
        Self::parse_deletion(text).unwrap_or_else(|| Self::Unknown(text.to_owned()))
    }

    fn parse_deletion(text: &str) -> Option<Self> {
        let stage = Stage::parse(text)?;
        let before = text.strip_suffix(stage.phrase())?;
        if before.is_empty() {
            return Some(Self::deletion(stage, None));
        }
        let note = DeletionNote::parse(before.strip_suffix(' ')?);
        Some(Self::deletion(stage, note))
    }

    /// The text of a variant without values.
    fn fixed(&self) -> Option<&'static str> {
        match self {
            Self::CreatingVm => Some("Creating machine on cloud provider"),
            Self::VmCreated => Some("Created machine on cloud provider"),
            Self::StaleNode => Some("VM using old node obj"),
            Self::UpdatingVm => Some("Updating VM on cloud provider"),
            Self::VmUpdated => Some("Updated VM on cloud provider"),
            _ => None,
        }
    }

    /// The stage of a deletion.
    pub(super) fn stage(&self) -> Option<Stage> {
        match self {
            Self::Deletion { stage, .. } => Some(*stage),
            // A provider's message may end with the phrase of any stage.
            other => Stage::parse(&other.to_string()),
        }
    }

    /// Whether InitializeMachine failed, not another call of the creation.
    pub(super) fn is_initialization(&self) -> bool {
        match self {
            Self::InitializationFailed { .. } => true,
            Self::Unknown(text) => text.ends_with(INITIALIZE_STAGE),
            _ => false,
        }
    }

    /// The retry period of a failed call of a deletion.
    pub(super) fn retry_period(&self) -> RetryPeriod {
        match self {
            Self::Deletion { note: Some(note), .. } => match note {
                DeletionNote::StatusRefused { .. } | DeletionNote::UnconfirmedRefused { .. } => RetryPeriod::Medium,
                DeletionNote::VmRefused { .. } => RetryPeriod::Long,
                DeletionNote::Other(_) => period_of_unknown(&self.to_string()),
                _ => RetryPeriod::Short,
            },
            Self::Unknown(text) => period_of_unknown(text),
            _ => RetryPeriod::Short,
        }
    }
}

fn period_of_unknown(text: &str) -> RetryPeriod {
    if text.ends_with(ABORTED) {
        RetryPeriod::Long
    } else if text.starts_with(STATUS_REFUSED) {
        RetryPeriod::Medium
    } else {
        RetryPeriod::Short
    }
}

impl fmt::Display for StepText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallFailed { error } => write!(f, "{CALL_FAILED}{error}"),
            Self::InitializationFailed { error } => {
                write!(f, "{INITIALIZATION_FAILED}{error}. {INITIALIZE_STAGE}")
            }
            Self::Deletion { stage, note: None } => f.write_str(stage.phrase()),
            Self::Deletion {
                stage,
                note: Some(note),
            } => write!(f, "{note} {}", stage.phrase()),
            Self::UpdateRefused { spec } => {
                let (start, end) = UPDATE_REFUSED;
                write!(f, "{start}{spec}{end}")
            }
            Self::Unknown(text) => f.write_str(text),
            fixed => f.write_str(fixed.fixed().unwrap_or_default()),
        }
    }
}

impl From<StepText> for String {
    fn from(text: StepText) -> Self {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::deletion_note::notes;
    use super::*;

    /// All texts that the controller can write, with these values.
    fn all(name: &str, error: &str) -> Vec<StepText> {
        let error_text = error.to_owned();
        let fixed = [
            StepText::CreatingVm,
            StepText::VmCreated,
            StepText::StaleNode,
            StepText::UpdatingVm,
            StepText::VmUpdated,
            StepText::CallFailed {
                error: error_text.clone(),
            },
            StepText::InitializationFailed { error: error_text },
            StepText::UpdateRefused { spec: name.to_owned() },
        ];
        let problem = format!("the machine class {name} is not usable: [{error}]; correct the class.");
        let notes = notes(name, error).into_iter().chain([DeletionNote::Other(problem)]);
        let notes: Vec<Option<DeletionNote>> = notes.map(Some).chain([None]).collect();
        let deletions = Stage::ALL.into_iter().flat_map(|stage| {
            let note = notes.clone().into_iter();
            note.map(move |note| StepText::deletion(stage, note))
        });
        fixed.into_iter().chain(deletions).collect()
    }

    proptest! {
        #[test]
        fn every_rendered_text_parses_to_the_value_that_rendered_it(name in "[a-z0-9.-]{1,20}", error in "(?s).*") {
            for text in all(&name, &error) {
                prop_assert_eq!(StepText::parse(&text.to_string()), text);
            }
        }

        #[test]
        fn provider_errors_may_contain_the_texts_of_the_controller(index in 0..1000usize) {
            let texts = all("n1", "no quota");
            let error = texts[index % texts.len()].to_string();
            for text in all("n1", &error) {
                prop_assert_eq!(StepText::parse(&text.to_string()), text);
            }
        }

        #[test]
        fn rendering_a_parsed_text_returns_the_text(text in "(?s).*", index in 0..1000usize) {
            let texts = all("n1", &text);
            let known = texts[index % texts.len()].to_string();
            for text in [text.clone(), format!("{known}{text}"), format!("{text}{known}"), format!("{text} {known}")] {
                prop_assert_eq!(StepText::parse(&text).to_string(), text);
            }
        }

        #[test]
        fn an_unknown_text_selects_its_stage_by_its_suffix(text in "[a-z ]*", index in 0..6usize) {
            let stage = Stage::ALL[index];
            prop_assert_eq!(StepText::parse(&format!("{text}{}", stage.phrase())).stage(), Some(stage));
        }
    }

    #[rstest]
    #[case::another_refusal_text("It broke. Aborting operation. Initiate VM deletion", RetryPeriod::Long)]
    #[case::a_status_without_a_code(
        "Error occurred with decoding machine error status while getting VM status, aborting without retry. It broke. \
         Set machine status to termination. Now, getting VM Status",
        RetryPeriod::Medium
    )]
    #[case::without_a_space("It broke.Aborting operation. Initiate VM deletion", RetryPeriod::Long)]
    #[case::no_stage("It broke.", RetryPeriod::Short)]
    fn an_unknown_text_selects_its_retry_period(#[case] text: &str, #[case] period: RetryPeriod) {
        assert_eq!(StepText::parse(text).retry_period(), period);
    }

    #[rstest]
    #[case::upstream("Provider error: no quota. Initialize VM Instance", true)]
    #[case::another_version("It broke. Initialize VM Instance", true)]
    #[case::another_call("Cloud provider message - no quota", false)]
    #[case::another_call_whose_error_ends_like_initialization("Cloud provider message - Initialize VM Instance", false)]
    fn a_text_shows_whether_the_initialization_failed(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(StepText::parse(text).is_initialization(), expected);
    }
}
