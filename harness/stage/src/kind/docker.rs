//! A client of the Docker engine for images and for the containers that are a cluster's nodes.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::query_parameters::{
    BuildImageOptionsBuilder, ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions,
};
use futures::StreamExt;

/// How long one request may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long the build of an image from a compiled program may take.
const BUILD_LIMIT: Duration = Duration::from_secs(60);
/// The label of kind's nodes that contains the cluster's name.
const CLUSTER_LABEL: &str = "io.x-k8s.kind.cluster";

/// Instructions for starting an engine.
const START_HINT: &str = "start Docker, set DOCKER_HOST, or on Debian run scripts/kubernetes/engine start";

/// Errors of requests to the Docker engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine is on another machine.
    #[error(
        "DOCKER_HOST={address} refers to no socket of this machine: kind nodes have to be reachable from here; \
         use unix:///PATH"
    )]
    NoSocket {
        /// Address of the engine.
        address: String,
    },
    /// The client cannot be created.
    #[error("no Docker engine at {address} ({source}): {START_HINT}")]
    Connect {
        /// Address of the engine.
        address: String,
        /// The cause.
        source: bollard::errors::Error,
    },
    /// The engine does not respond.
    #[error("the Docker engine at {address} does not answer ({source}): {START_HINT}")]
    Ping {
        /// Address of the engine.
        address: String,
        /// The cause.
        source: bollard::errors::Error,
    },
    /// The engine does not respond in time.
    #[error("the Docker engine at {address} does not answer within {ANSWER_LIMIT:?}: {START_HINT}")]
    NoAnswer {
        /// Address of the engine.
        address: String,
    },
    /// The build of an image fails.
    #[error("the image {image} cannot be built: {source}")]
    Build {
        /// The image.
        image: String,
        /// The cause.
        source: bollard::errors::Error,
    },
    /// The build of an image times out.
    #[error("the image {image} was not built within {BUILD_LIMIT:?}")]
    SlowBuild {
        /// The image.
        image: String,
    },
    /// Containers cannot be listed.
    #[error("the Docker engine does not list containers: {0}")]
    List(#[source] bollard::errors::Error),
    /// The list of containers times out.
    #[error("the Docker engine did not list containers within {ANSWER_LIMIT:?}")]
    SlowList,
    /// A command cannot be executed in a container.
    #[error("cannot execute {command} in {container}: {source}")]
    Execute {
        /// The command.
        command: String,
        /// The container.
        container: String,
        /// The cause.
        source: bollard::errors::Error,
    },
    /// A command fails in a container.
    #[error("{command} failed in {container}: {printed}")]
    Failed {
        /// The command.
        command: String,
        /// The container.
        container: String,
        /// What it printed.
        printed: String,
    },
    /// A command does not end in time.
    #[error("{command} did not end in {container} within {ANSWER_LIMIT:?}")]
    SlowCommand {
        /// The command.
        command: String,
        /// The container.
        container: String,
    },
}

/// A connection to the engine at DOCKER_HOST, or at the default socket.
#[derive(Clone, Debug)]
pub(super) struct Engine(Docker);

impl Engine {
    /// Connects to the engine and checks that it responds.
    ///
    /// # Errors
    /// When the engine does not respond, with instructions for starting one.
    pub(super) async fn connect() -> Result<Self, EngineError> {
        let address = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
        if !address.starts_with("unix://") {
            return Err(EngineError::NoSocket { address });
        }
        let docker = match Docker::connect_with_host(&address) {
            Ok(docker) => docker,
            Err(source) => return Err(EngineError::Connect { address, source }),
        };
        match tokio::time::timeout(ANSWER_LIMIT, docker.ping()).await {
            Ok(Ok(_)) => Ok(Self(docker)),
            Ok(Err(source)) => Err(EngineError::Ping { address, source }),
            Err(_) => Err(EngineError::NoAnswer { address }),
        }
    }

    /// Whether the engine has an image.
    pub(super) async fn has_image(&self, image: &str) -> bool {
        let inspected = tokio::time::timeout(ANSWER_LIMIT, self.0.inspect_image(image)).await;
        matches!(inspected, Ok(Ok(_)))
    }

    /// Builds an image from a context that has a `Dockerfile`.
    ///
    /// # Errors
    /// The error of the engine.
    pub(super) async fn build(&self, image: &str, context: Vec<u8>) -> Result<(), EngineError> {
        let options = BuildImageOptionsBuilder::default()
            .dockerfile("Dockerfile")
            .t(image)
            .rm(true)
            .forcerm(true)
            .build();
        let body = bollard::body_full(context.into());
        let building = async {
            let mut lines = std::pin::pin!(self.0.build_image(options, None, Some(body)));
            while let Some(line) = lines.next().await {
                line.map_err(|source| EngineError::Build {
                    image: image.to_owned(),
                    source,
                })?;
            }
            Ok(())
        };
        tokio::time::timeout(BUILD_LIMIT, building).await.unwrap_or_else(|_| {
            Err(EngineError::SlowBuild {
                image: image.to_owned(),
            })
        })
    }

    /// The tags of the images of a repository, newest first. Empty if the engine does not list them.
    pub(super) async fn tags(&self, repository: &str) -> Vec<String> {
        let filters = HashMap::from([("reference".to_owned(), vec![repository.to_owned()])]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let listed = tokio::time::timeout(ANSWER_LIMIT, self.0.list_images(Some(options))).await;
        let Ok(Ok(mut images)) = listed else {
            return Vec::new();
        };
        images.sort_by_key(|image| std::cmp::Reverse(image.created));
        images.into_iter().flat_map(|image| image.repo_tags).collect()
    }

    /// Removes an image by name. Logs an error of the engine, for example if a container uses the image.
    pub(super) async fn remove_image(&self, image: &str) {
        let removing = self.0.remove_image(image, None::<RemoveImageOptions>, None);
        if let Ok(Err(error)) = tokio::time::timeout(ANSWER_LIMIT, removing).await {
            tracing::debug!("cannot remove the image {image}: {error}");
        }
    }

    /// The nodes of one cluster or of all clusters, as pairs of cluster and container.
    ///
    /// # Errors
    /// The error of the engine.
    pub(super) async fn nodes(&self, cluster: Option<&str>) -> Result<Vec<(String, String)>, EngineError> {
        let label = match cluster {
            Some(cluster) => format!("{CLUSTER_LABEL}={cluster}"),
            None => CLUSTER_LABEL.to_owned(),
        };
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        let listed = match tokio::time::timeout(ANSWER_LIMIT, self.0.list_containers(Some(options))).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => return Err(EngineError::List(error)),
            Err(_) => return Err(EngineError::SlowList),
        };
        let nodes = listed.into_iter().filter_map(|container| {
            let cluster = container.labels?.get(CLUSTER_LABEL)?.clone();
            let name = container.names?.into_iter().next()?;
            Some((cluster, name.trim_start_matches('/').to_owned()))
        });
        Ok(nodes.collect())
    }

    /// Runs a command in a container to its end, and returns its output.
    ///
    /// # Errors
    /// When the command cannot be executed or fails, with its output.
    pub(super) async fn execute(&self, container: &str, command: &[&str]) -> Result<String, EngineError> {
        let executing = async {
            let options = CreateExecOptions {
                attach_stdout: Some(true),
                attach_stderr: Some(true),
                cmd: Some(command.to_vec()),
                ..CreateExecOptions::default()
            };
            let created = self.0.create_exec(container, options).await?;
            let mut printed = String::new();
            if let StartExecResults::Attached { mut output, .. } = self.0.start_exec(&created.id, None).await? {
                while let Some(line) = output.next().await {
                    printed += &line?.to_string();
                }
            }
            let status = self.0.inspect_exec(&created.id).await?.exit_code;
            Ok::<_, bollard::errors::Error>((printed, status))
        };
        let executed = tokio::time::timeout(ANSWER_LIMIT, executing).await;
        let (command, container) = (command.join(" "), container.to_owned());
        match executed {
            Ok(Ok((printed, Some(0)))) => Ok(printed),
            Ok(Ok((printed, _))) => Err(EngineError::Failed {
                command,
                container,
                printed: printed.trim().to_owned(),
            }),
            Ok(Err(source)) => Err(EngineError::Execute {
                command,
                container,
                source,
            }),
            Err(_) => Err(EngineError::SlowCommand { command, container }),
        }
    }
}
