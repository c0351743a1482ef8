//! The disturbances of a plan, as data with a description in one line.

use std::fmt;

use apiserver::faults::{Action, Rule};
use fakecloud_api::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TimedStep, cloud_fault};
use crate::kinds::Kinds;
use crate::names::{NameOf, Names, Reference, references_of_api_rule, references_of_cloud_rule};
use crate::step::{Crash, Fault, KubeletAction, Process, VmAction, action_text, fault_problem};
use crate::{DurationExpression, Problem, StageKind, Step};

/// A disturbance of a run. Times count from the scenario's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Disturbance {
    /// A process is killed at one of its effects and started again.
    Crash(Crash),
    /// A process is paused at one of its effects, as by SIGSTOP, and continues later.
    Pause(Pause),
    /// The watches of a process deliver events late, from one of its effects on.
    Lag(Lag),
    /// Requests to the API server are refused, delayed, lost and so on, by a rule (`docs/using/api-server-faults.md`).
    /// Its window counts from the start of the server.
    Api(Box<Rule>),
    /// Cloud calls fail or are slow, by a rule (`docs/reference/cloud-faults.md`). Its window counts from the start of
    /// the scenario.
    Cloud(#[serde(deserialize_with = "cloud_fault::read")] Box<Fault>),
    /// An action on the VM of a machine, if it has one at that time.
    Vm(VmFault),
    /// An action on the kubelet of a machine's VM, if it has one at that time.
    Kubelet(KubeletFault),
    /// Any other fault at a fixed time, in the form of a step.
    Step(Box<TimedStep>),
}

/// A pause of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pause {
    /// The process.
    pub process: Process,
    /// The effect before which it is paused, counted from 1.
    pub effect: u64,
    /// Duration of the pause.
    pub time: DurationExpression,
}

/// A delay of a process's watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lag {
    /// The process.
    pub process: Process,
    /// The effect at which the delay starts, counted from 1.
    pub effect: u64,
    /// The delay.
    pub by: DurationExpression,
    /// How long watches are delayed; absent: to the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<DurationExpression>,
}

/// An action on a VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmFault {
    /// Name of the machine.
    pub machine: String,
    /// The action.
    #[serde(rename = "do")]
    pub action: VmAction,
    /// Time of the action.
    pub at: DurationExpression,
}

/// An action on a kubelet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletFault {
    /// Name of the machine.
    pub machine: String,
    /// The action.
    #[serde(rename = "do")]
    pub action: KubeletAction,
    /// Time of the action.
    pub at: DurationExpression,
}

impl Disturbance {
    /// Checks rules that the types do not express. Returns the field below the disturbance, and the fix.
    pub(super) fn validate(&self) -> Result<(), Problem> {
        let effect = match self {
            Self::Crash(crash) => Some(("crash", crash.effect)),
            Self::Pause(pause) => Some(("pause", pause.effect)),
            Self::Lag(lag) => Some(("lag", lag.effect)),
            _ => None,
        };
        if let Self::Api(rule) = self {
            return rule.check().map_err(|wrong| {
                (
                    format!("api.{}", wrong.field),
                    format!("{}: {}", wrong.problem, wrong.fix),
                )
            });
        }
        match (effect, self) {
            (Some((word, 0)), _) => Err((format!("{word}.effect"), "effects are counted from 1".to_owned())),
            (_, Self::Kubelet(fault)) => match fault.action.problem() {
                Some(problem) => Err(("kubelet.do".to_owned(), problem.to_owned())),
                None => Ok(()),
            },
            (_, Self::Cloud(fault)) => match fault_problem(fault) {
                Some(problem) => Err(("cloud".to_owned(), problem)),
                None => Ok(()),
            },
            (_, Self::Step(timed)) => timed
                .validate()
                .map_err(|(field, problem)| (format!("step.{field}"), problem)),
            _ => Ok(()),
        }
    }

    /// The names in it that must belong to something that the scenario creates; names of machines are globs.
    pub(super) fn references(&self, kinds: &Kinds) -> Result<Vec<Reference>, Problem> {
        match self {
            Self::Crash(_) | Self::Pause(_) | Self::Lag(_) => Ok(Vec::new()),
            Self::Api(rule) => references_of_api_rule(kinds, "api", &rule.matches),
            Self::Cloud(fault) => Ok(references_of_cloud_rule("cloud", &fault.matches)),
            Self::Vm(fault) => Ok(vec![Reference::glob("vm.machine", NameOf::Vm, &fault.machine)]),
            Self::Kubelet(fault) => Ok(vec![Reference::glob("kubelet.machine", NameOf::Vm, &fault.machine)]),
            Self::Step(timed) => {
                let references = timed.step.references(kinds).map_err(below_step)?;
                Ok(references.into_iter().map(|reference| reference.below(STEP)).collect())
            }
        }
    }

    /// Adds the name of its rule.
    pub(super) fn add_names(&self, names: &mut Names) {
        match self {
            Self::Api(rule) => names.add(NameOf::ApiFault, &rule.name),
            Self::Cloud(fault) => names.add(NameOf::CloudFault, &fault.name),
            Self::Step(timed) => timed.step.add_names(names),
            Self::Crash(_) | Self::Pause(_) | Self::Lag(_) | Self::Vm(_) | Self::Kubelet(_) => {}
        }
    }

    /// Why the stage cannot execute it; `None`: it can.
    pub fn why_not_on(&self, stage: StageKind) -> Option<&'static str> {
        match self {
            Self::Crash(Crash { process, .. })
            | Self::Pause(Pause { process, .. })
            | Self::Lag(Lag { process, .. }) => stage.why_no_gate(*process),
            Self::Api(_) => (![StageKind::Sim, StageKind::Embedded].contains(&stage))
                .then_some("the API server of this stage does not support fault rules; use --stage embedded or sim"),
            Self::Cloud(_) | Self::Vm(_) | Self::Kubelet(_) => {
                (stage == StageKind::Kind).then_some("stage kind does not execute plans; use --stage embedded or sim")
            }
            Self::Step(timed) => timed.step.why_not_on(stage),
        }
    }

    /// The name of its rule, if it is a rule. Names are unique within a plan.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Api(rule) => Some(&rule.name),
            Self::Cloud(fault) => Some(&fault.name),
            Self::Step(timed) => match &timed.step {
                Step::ApiFault(fault) => Some(&fault.rule.name),
                Step::Inject(inject) => Some(&inject.rule.name),
                _ => None,
            },
            _ => None,
        }
    }

    /// The kind of the fault, whatever it affects. Campaigns count faults by kind.
    pub fn kind(&self) -> String {
        match self {
            Self::Crash(crash) => format!("crash {} {}", crash.process, crash.at),
            Self::Pause(pause) => format!("pause {}", pause.process),
            Self::Lag(lag) => format!("lag {}", lag.process),
            Self::Api(rule) => match &rule.action {
                Action::Fail { code, at, .. } => format!("api fail {code} {at}"),
                Action::Drop { at } => format!("api drop {at}"),
                Action::Delay { at, .. } => format!("api delay {at}"),
                action => format!("api {}", action.word()),
            },
            Self::Cloud(fault) => {
                let how = match fault.action.code {
                    Some(_) if fault.action.at == At::AfterCommit => "error after effect",
                    Some(_) => "error",
                    None => "slow",
                };
                format!("cloud {} {how}", fault.call_name())
            }
            Self::Vm(fault) => format!("vm {}", format!("{:?}", fault.action).to_lowercase()),
            Self::Kubelet(fault) => format!("kubelet {}", fault.action.name()),
            Self::Step(timed) => timed.step.word(),
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(crash) => write!(f, "crash {} {} effect {}", crash.process, crash.at, crash.effect),
            Self::Pause(Pause { process, effect, time }) => {
                write!(f, "pause {process} from effect {effect} for {time}")
            }
            Self::Lag(Lag {
                process,
                effect,
                by,
                lasts,
            }) => {
                write!(f, "delay watches of {process} by {by} from effect {effect}")?;
                lasts.as_ref().map_or(Ok(()), |lasts| write!(f, " for {lasts}"))
            }
            Self::Api(rule) => write!(f, "API fault {}: {}", rule.name, rule.action),
            Self::Cloud(fault) => {
                let action = action_text(fault);
                write!(f, "cloud fault {} in {} ({action})", fault.name, fault.call_name())?;
                let Some(window) = &fault.matches.window else {
                    return Ok(());
                };
                if let Some(from) = &window.from {
                    write!(f, " from {from}")?;
                }
                window
                    .until
                    .as_ref()
                    .map_or(Ok(()), |until| write!(f, " until {until}"))
            }
            Self::Vm(fault) => write!(f, "{:?} the VM of {} at {}", fault.action, fault.machine, fault.at),
            Self::Kubelet(fault) => write!(f, "{} at {}", fault.action.planned_on(&fault.machine), fault.at),
            Self::Step(timed) => write!(f, "{} at {}", timed.step.description(), timed.at),
        }
    }
}

/// The field of a timed fault with its step.
const STEP: &str = "step.do";

/// A problem in the step of a timed fault.
fn below_step((field, problem): Problem) -> Problem {
    (format!("{STEP}.{field}"), problem)
}
