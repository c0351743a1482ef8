//! Removes empty nodes as cluster-autoscaler does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, StepDefinition};
use crate::Problem;
use crate::duration::DurationExpression;
use crate::kinds::Kinds;
use crate::names::{NameOf, Reference};

/// cluster-autoscaler's removal of empty nodes: it lists the machine and lowers the deployment's replicas. It skips
/// nodes with the annotation that disables scale-down. The step lasts for `lasts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Autoscaler {
    /// Name of the deployment.
    pub deployment: String,
    /// How long a node must have been empty.
    pub idle: DurationExpression,
    /// Duration of the step.
    pub lasts: DurationExpression,
    /// Whether it may remove no node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

impl StepDefinition for Autoscaler {
    fn description(&self) -> String {
        format!(
            "let cluster-autoscaler remove nodes of {} that are empty for {}, for {}",
            self.deployment, self.idle, self.lasts
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Autoscaler(self)
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        let deployments = NameOf::Object("MachineDeployment");
        Ok(vec![Reference::name(
            "autoscaler.deployment",
            deployments,
            &self.deployment,
        )])
    }

    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        vec![
            ("autoscaler.idle".to_owned(), &self.idle),
            ("autoscaler.lasts".to_owned(), &self.lasts),
        ]
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
