//! Runs on a cluster: a scenario in a namespace of its own, and a world to play with.
//!
//! What must not live here: how the parts of a world come up (`world`) and go (`cleanup`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use mcm_driver::tls::Tls;

use super::cluster::{Cluster, random_suffix};
use super::collect::collect;
use super::progress::step;
use super::world::{Plan, RUN_LABEL, World};
use super::{cleanup, nodes};
use crate::engine::perform;
use crate::runner::{Job, Ran};
use crate::scenario::Cloud;
use crate::stage::{NAMESPACE, Stage, setup};

/// The longest part of a scenario's name in the name of its namespace.
const NAME_LIMIT: usize = 40;

impl Cluster {
    /// Performs one scenario in a new namespace, and takes away everything that it made. The namespace itself goes while
    /// the next scenario runs; [`Cluster::end`] waits for it.
    pub async fn run(&self, job: &Job) -> Ran {
        let suffix = random_suffix(&self.seed, &format!("run {}", job.plan.scenario.name));
        let namespace = namespace_of(&job.plan.scenario.name, &suffix);
        let (mut told, logs) = match self
            .deploy(
                &namespace,
                &job.plan.scenario.world.cloud,
                job.plan.scenario.world.replicas,
                job.plan.seed,
            )
            .await
        {
            Ok(mut world) => match setup::install_fixtures(&self.client, &namespace).await {
                Ok(()) => {
                    let told = Box::pin(perform(&mut world, &job.plan.scenario)).await;
                    let failed = told.failure.is_some();
                    (
                        Ok(told),
                        if failed {
                            collect(self, &namespace).await
                        } else {
                            BTreeMap::new()
                        },
                    )
                }
                Err(reason) => (Err(reason), collect(self, &namespace).await),
            },
            Err(reason) => (Err(reason), collect(self, &namespace).await),
        };
        let tidied = step(
            &self.progress,
            &format!("{}: tidied up", job.plan.scenario.name),
            Box::pin(cleanup::tidy(&self.client, &namespace)),
        )
        .await;
        match tidied {
            Ok(()) => self.note(&namespace, true),
            Err(reason) if told.is_ok() => told = Err(reason),
            Err(_) => {}
        }
        Ran::new(told, logs)
    }

    /// Deploys a world to play with. It ends with the cluster, or with [`Cluster::end`] where the cluster is kept.
    ///
    /// # Errors
    /// One line: what was refused or did not come up.
    pub async fn up(&self) -> Result<Up, String> {
        let world = self.deploy(NAMESPACE, &Cloud::default(), 0, 1).await?;
        setup::install_fixtures(&self.client, NAMESPACE).await?;
        Ok(Up(world))
    }

    async fn deploy(&self, namespace: &str, cloud: &Cloud, replicas: u32, seed: u64) -> Result<World, String> {
        let plan = Plan {
            namespace,
            cloud,
            replicas,
            seed,
        };
        nodes::none_is_there(&self.client).await?;
        self.make_namespace(namespace).await?;
        step(
            &self.progress,
            &format!("deployed into {namespace}"),
            World::start(self, &plan),
        )
        .await
    }

    async fn make_namespace(&self, name: &str) -> Result<(), String> {
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
        created
            .map(drop)
            .map_err(|error| format!("cannot create the namespace {name}: {error}"))
    }
}

/// A world to play with.
pub struct Up(World);

impl std::fmt::Debug for Up {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Up")
            .field("namespace", &self.namespace())
            .finish_non_exhaustive()
    }
}

impl Up {
    /// Where everything is deployed, and where machines go.
    pub fn namespace(&self) -> &str {
        self.0.namespace()
    }

    /// Where fakecloud's controls answer on this machine, over mutual TLS.
    pub fn cloud_address(&self) -> SocketAddr {
        self.0.cloud_address()
    }

    /// How a client secures its connection to them.
    pub fn cloud_tls(&self) -> Tls {
        self.0.cloud_tls()
    }

    /// Returns, with a sentence, when a container ends that nobody ended.
    pub async fn trouble(&mut self) -> String {
        self.0.trouble().await
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
    fn a_namespace_has_a_name_that_kubernetes_takes() {
        assert_eq!(namespace_of("vm_dies", "0a1b2c3d"), "drydock-vm-dies-0a1b2c3d");
        assert!(namespace_of(&"a".repeat(100), "0a1b2c3d").len() <= 63);
    }
}
