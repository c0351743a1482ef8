//! A plan: a policy, faults, and the machines that each controller marks.

use std::collections::BTreeSet;
use std::time::Duration;

use mcm_api::GoDuration;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A policy and faults that both controllers get.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What happens, as a sentence.
    pub about: String,
    /// The entry of the catalogue of known bugs that it concerns, for example `R83`.
    #[serde(default)]
    pub entry: Option<String>,
    /// The number of machines.
    pub machines: usize,
    /// The controller of the machines.
    #[serde(default)]
    pub owner: Owner,
    /// `checks` and `remediation` of the check, in the spelling of Cluster API.
    pub policy: Map<String, Value>,
    /// Settings that only the check of Drydock has.
    #[serde(default)]
    pub only_drydock: Map<String, Value>,
    /// The faults in order of time.
    pub faults: Vec<Fault>,
    /// How long the machines are observed, from the first moment on.
    pub lasts: GoDuration,
    /// The expected outcome for Cluster API.
    pub cluster_api: Expected,
    /// The expected outcome for Drydock.
    pub drydock: Expected,
    /// Why the outcomes differ, if they do.
    #[serde(default)]
    pub difference: Option<String>,
}

/// The controller of the machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owner {
    /// A MachineSet.
    #[default]
    Set,
    /// A MachineDeployment whose old machines stay until a user replaces them: `OnDelete` of Cluster API, a manual in-place
    /// update of Drydock.
    ManualDeployment,
}

/// A fault, or its end.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// When it happens, from the first moment on.
    pub at: GoDuration,
    /// What happens.
    #[serde(rename = "do")]
    pub action: FaultAction,
    /// The numbers of the machines to which it happens, in the order of names, from 1.
    #[serde(default)]
    pub to: Vec<usize>,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultAction {
    /// The disk of the VM is full: the Node has `DiskPressure`.
    FillDisk,
    /// The disk has space again.
    FreeDisk,
    /// The kernel of the VM panics.
    Panic,
    /// The VM is rebooted.
    Reboot,
    /// A user deletes the Node.
    DeleteNode,
    /// A user requests the remediation of the machine by an annotation.
    Remediate,
    /// A user changes the template of the MachineDeployment.
    ChangeTemplate,
    /// The controllers cannot reach the API server of the nodes any more.
    Cut,
    /// They can reach it again.
    Reconnect,
}

/// What a controller does with the machines, by their numbers. Machines that are created later have no number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Their `HealthCheckSucceeded` becomes False.
    pub marked: BTreeSet<usize>,
    /// Their remediation is requested.
    pub requested: BTreeSet<usize>,
    /// They are deleted.
    pub deleted: BTreeSet<usize>,
    /// Their `HealthCheckSucceeded` is False at the end, and they exist.
    pub marked_at_end: BTreeSet<usize>,
}

/// The machines that a plan expects in each part of an [`Outcome`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Expected {
    marked: Numbers,
    requested: Numbers,
    deleted: Numbers,
    marked_at_end: Numbers,
}

/// Numbers of machines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Numbers {
    Exactly(BTreeSet<usize>),
    Fewer {
        #[serde(rename = "fewerThan")]
        than: usize,
    },
}

impl Default for Numbers {
    fn default() -> Self {
        Self::Exactly(BTreeSet::new())
    }
}

impl Numbers {
    fn is_met_by(&self, numbers: &BTreeSet<usize>) -> bool {
        match self {
            Self::Exactly(expected) => numbers == expected,
            Self::Fewer { than } => numbers.len() < *than,
        }
    }
}

impl Expected {
    /// Whether an outcome is as expected.
    pub fn is_met_by(&self, outcome: &Outcome) -> bool {
        self.marked.is_met_by(&outcome.marked)
            && self.requested.is_met_by(&outcome.requested)
            && self.deleted.is_met_by(&outcome.deleted)
            && self.marked_at_end.is_met_by(&outcome.marked_at_end)
    }
}

/// Errors of plans.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The text is no plan.
    #[error("{file} is no plan: {source}")]
    Syntax {
        /// The file.
        file: String,
        /// The cause.
        source: Box<serde_saphyr::Error>,
    },
    /// A number of a machine that does not exist.
    #[error("{file}: faults name machine {number}, but the plan has machines 1 to {machines}: correct `to`")]
    UnknownMachine {
        /// The file.
        file: String,
        /// The number.
        number: usize,
        /// How many machines the plan has.
        machines: usize,
    },
}

impl Plan {
    /// Reads a plan. `file`: its name for errors.
    ///
    /// # Errors
    /// If the text is no plan.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let mut plan: Self = serde_saphyr::from_str(text).map_err(|source| PlanError::Syntax {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        plan.faults.sort_by_key(|fault| fault.at.0);
        let mut numbers = plan.faults.iter().flat_map(|fault| fault.to.iter().copied());
        match numbers.find(|number| !(1..=plan.machines).contains(number)) {
            Some(number) => Err(PlanError::UnknownMachine {
                file: file.to_owned(),
                number,
                machines: plan.machines,
            }),
            None => Ok(plan),
        }
    }

    /// How long it lasts.
    pub fn duration(&self) -> Duration {
        self.lasts.0
    }

    /// Whether its check has a template of requests to another controller.
    pub fn has_template(&self) -> bool {
        let remediation = self.policy.get("remediation");
        remediation.and_then(|settings| settings.get("templateRef")).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "{name: a, about: b, machines: 2, policy: {}, lasts: 1s, clusterApi: {}, drydock: {},
        faults: [{at: 2s, do: cut}, {at: 1s, do: panic, to: [2]}]}";

    #[test]
    fn faults_are_in_order_of_time() {
        let plan = Plan::parse("a.yaml", PLAN).unwrap();
        let actions: Vec<FaultAction> = plan.faults.iter().map(|fault| fault.action).collect();
        assert_eq!(actions, [FaultAction::Panic, FaultAction::Cut]);
    }

    #[test]
    fn a_fault_of_an_unknown_machine_is_refused() {
        let error = Plan::parse("a.yaml", &PLAN.replace("[2]", "[3]")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.yaml: faults name machine 3, but the plan has machines 1 to 2: correct `to`"
        );
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let error = Plan::parse("a.yaml", &PLAN.replace("about", "purpose")).unwrap_err();
        assert!(error.to_string().contains("purpose"), "{error}");
    }

    #[test]
    fn the_committed_plans_are_valid() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/plans")).unwrap();
        let mut count = 0;
        for file in folder {
            let path = file.unwrap().path();
            let plan = Plan::parse(&path.to_string_lossy(), &std::fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(
                Some(plan.name.as_str()),
                path.file_stem().and_then(|stem| stem.to_str())
            );
            assert_eq!(
                plan.difference.is_some(),
                plan.cluster_api != plan.drydock,
                "{}",
                plan.name
            );
            count += 1;
        }
        assert!(count > 0);
    }
}
