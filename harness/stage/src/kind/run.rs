//! Runs on a cluster: scenarios in separate namespaces, and an interactive world.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use judge::ScenarioOutcome;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use mcm_driver::tls::Tls;
use scenario::job::Job;
use scenario::{Cloud, McmSettings};

use super::cleanup::RUN_LABEL;
use super::cluster::{Cluster, random_suffix};
use super::collect::collect;
use super::error::ClusterError;
use super::progress::step;
use super::world::{Plan, World};
use super::{KindError, nodes};
use crate::clusters::Clusters;
use crate::result::StageResult;
use crate::{NAMESPACE, Performer, Stage, StageError, setup};

/// The maximum length of a scenario's name in the name of its namespace.
const NAME_LIMIT: usize = 40;

impl Cluster {
    /// Performs one scenario in a new namespace, and removes everything that it created. The deletion of the namespace
    /// continues while the next scenario runs; [`Cluster::end`] waits for it.
    pub async fn run(&self, job: &Job, performer: &impl Performer) -> StageResult {
        let scenario = &job.plan.scenario;
        let suffix = random_suffix(&self.seed, &format!("run {} {}", scenario.name, job.plan.seed));
        let namespace = namespace_of(&scenario.name, &suffix);
        if let Err(error) = self.prepare_namespace(&namespace).await {
            return StageResult::new(Err(error.into()), BTreeMap::new());
        }
        let outcome = self.perform(&namespace, job, performer).await;
        let failed = !matches!(&outcome, Ok(outcome) if outcome.is_clean());
        let logs = if failed {
            collect(self, &namespace).await
        } else {
            BTreeMap::new()
        };
        let tidied = step(
            &self.progress,
            &format!("{}: tidied up", scenario.name),
            self.tidy_after(&namespace, job),
        )
        .await;
        StageResult::new(outcome.map_err(StageError::from), logs).tidied(tidied.map_err(StageError::from))
    }

    /// Removes everything that the run of a job created.
    async fn tidy_after(&self, namespace: &str, job: &Job) -> Result<(), KindError> {
        self.tidy(namespace).await?;
        let clusters = Clusters::one(self.client.clone());
        Ok(setup::remove_world(&clusters, namespace, &job.plan.scenario).await?)
    }

    async fn perform(
        &self,
        namespace: &str,
        job: &Job,
        performer: &impl Performer,
    ) -> Result<ScenarioOutcome, KindError> {
        let plan = Plan {
            namespace,
            cloud: &job.plan.scenario.world.cloud,
            replicas: job.plan.scenario.world.replicas,
            mcm_settings: job.plan.scenario.world.mcm(),
            remediation: job.plan.scenario.world.remediation,
            seed: job.plan.seed,
        };
        let clusters = Clusters::one(self.client.clone());
        setup::install_world(&clusters, namespace, &job.plan.scenario).await?;
        let mut world = self.deploy(&plan).await?;
        setup::install_fixtures(&self.client, namespace).await?;
        Ok(Box::pin(performer.perform(&mut world, &job.plan.scenario)).await)
    }

    /// Deploys an interactive world. [`Cluster::end`] removes it, with or without the cluster.
    ///
    /// # Errors
    /// The object that the API server rejects, or the part that does not start.
    pub async fn up(&self, cloud: &Cloud, seed: u64) -> Result<Up, KindError> {
        self.prepare_namespace(NAMESPACE).await?;
        let plan = Plan {
            namespace: NAMESPACE,
            cloud,
            replicas: 0,
            mcm_settings: McmSettings::default(),
            remediation: false,
            seed,
        };
        let world = self.deploy(&plan).await?;
        setup::install_fixtures(&self.client, NAMESPACE).await?;
        Ok(Up(world))
    }

    async fn deploy(&self, plan: &Plan<'_>) -> Result<World, KindError> {
        step(
            &self.progress,
            &format!("deployed into {}", plan.namespace),
            World::start(self, plan),
        )
        .await
    }

    /// Cleans up after aborted runs, checks that no other fakecloud has Nodes in the cluster, and creates a namespace.
    async fn prepare_namespace(&self, name: &str) -> Result<(), KindError> {
        self.tidy_up().await?;
        nodes::ensure_none(&self.client).await?;
        self.note(name, false);
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(BTreeMap::from([(RUN_LABEL.to_owned(), self.name.clone())])),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let created = Api::all(self.client.clone())
            .create(&PostParams::default(), &namespace)
            .await;
        created.map_err(|source| ClusterError::CreateNamespace {
            namespace: name.to_owned(),
            source: Box::new(source),
        })?;
        Ok(())
    }
}

/// An interactive world.
pub struct Up(World);

impl std::fmt::Debug for Up {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Up")
            .field("namespace", &self.namespace())
            .finish_non_exhaustive()
    }
}

impl Up {
    /// The world, for steps.
    pub fn stage(&mut self) -> &mut impl Stage {
        &mut self.0
    }

    /// The namespace of the programs and of machines.
    pub fn namespace(&self) -> &str {
        self.0.namespace()
    }

    /// The local address of fakecloud's control API, which uses mutual TLS.
    pub fn cloud_address(&self) -> SocketAddr {
        self.0.cloud_address()
    }

    /// The TLS settings of a client of the control API.
    pub fn cloud_tls(&self) -> Tls {
        self.0.cloud_tls()
    }

    /// Returns a message when a container ends unexpectedly.
    pub async fn failure(&mut self) -> String {
        self.0.failure().await
    }
}

/// The namespace of one run of a scenario.
fn namespace_of(scenario: &str, suffix: &str) -> String {
    let name: String = scenario.replace('_', "-").chars().take(NAME_LIMIT).collect();
    format!("drydock-{}-{suffix}", name.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_namespace_is_valid() {
        assert_eq!(namespace_of("vm_dies", "0a1b2c3d"), "drydock-vm-dies-0a1b2c3d");
        assert!(namespace_of(&"a".repeat(100), "0a1b2c3d").len() <= 63);
    }
}
