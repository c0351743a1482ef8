//! The Docker engine: whether it answers, its images, and the containers that are a cluster's nodes.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::query_parameters::{
    BuildImageOptionsBuilder, ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions,
};
use futures::StreamExt;

/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long an image may take to be built from a finished program.
const BUILD_LIMIT: Duration = Duration::from_secs(60);
/// The label by which kind marks its nodes with the cluster's name.
const CLUSTER_LABEL: &str = "io.x-k8s.kind.cluster";

/// A connection to the engine that DOCKER_HOST names, or to the usual one.
#[derive(Clone, Debug)]
pub(super) struct Engine(Docker);

impl Engine {
    /// Connects, and asks whether it answers.
    ///
    /// # Errors
    /// One line: which engine does not, and how to get one.
    pub(super) async fn connect() -> Result<Self, String> {
        let how = "start Docker, set DOCKER_HOST, or on Debian run scripts/kubernetes/engine start";
        let address = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
        if !address.starts_with("unix://") {
            return Err(format!(
                "DOCKER_HOST={address} is no socket of this machine: kind nodes have to be reachable from here; \
                 use unix:///PATH"
            ));
        }
        let docker = Docker::connect_with_host(&address)
            .map_err(|error| format!("no Docker engine at {address} ({error}): {how}"))?;
        match tokio::time::timeout(ANSWER_LIMIT, docker.ping()).await {
            Ok(Ok(_)) => Ok(Self(docker)),
            Ok(Err(error)) => Err(format!(
                "the Docker engine at {address} does not answer ({error}): {how}"
            )),
            Err(_) => Err(format!(
                "the Docker engine at {address} does not answer within {ANSWER_LIMIT:?}: {how}"
            )),
        }
    }

    /// Whether it has an image.
    pub(super) async fn has_image(&self, image: &str) -> bool {
        let looked = tokio::time::timeout(ANSWER_LIMIT, self.0.inspect_image(image)).await;
        matches!(looked, Ok(Ok(_)))
    }

    /// Builds an image from a context that has a `Dockerfile`.
    ///
    /// # Errors
    /// One line with the engine's reason.
    pub(super) async fn build(&self, image: &str, context: Vec<u8>) -> Result<(), String> {
        let options = BuildImageOptionsBuilder::default()
            .dockerfile("Dockerfile")
            .t(image)
            .rm(true)
            .forcerm(true)
            .build();
        let body = bollard::body_full(context.into());
        let building = async {
            let mut told = std::pin::pin!(self.0.build_image(options, None, Some(body)));
            while let Some(line) = told.next().await {
                line.map_err(|error| format!("the image {image} cannot be built: {error}"))?;
            }
            Ok(())
        };
        tokio::time::timeout(BUILD_LIMIT, building)
            .await
            .map_err(|_| format!("the image {image} was not built within {BUILD_LIMIT:?}"))?
    }

    /// The tags of the images of a repository, the newest first. None when the engine does not tell.
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

    /// Removes an image by its name, unless a container uses it or the engine does not want to.
    pub(super) async fn remove_image(&self, image: &str) {
        let removing = self.0.remove_image(image, None::<RemoveImageOptions>, None);
        if let Ok(Err(error)) = tokio::time::timeout(ANSWER_LIMIT, removing).await {
            tracing::debug!("the image {image} stays: {error}");
        }
    }

    /// The nodes of clusters, as pairs of cluster and container; of one cluster or of all.
    ///
    /// # Errors
    /// One line with the engine's reason.
    pub(super) async fn nodes(&self, cluster: Option<&str>) -> Result<Vec<(String, String)>, String> {
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
            Ok(Err(error)) => return Err(format!("the Docker engine does not list containers: {error}")),
            Err(_) => {
                return Err(format!(
                    "the Docker engine did not list containers within {ANSWER_LIMIT:?}"
                ));
            }
        };
        let named = listed.into_iter().filter_map(|container| {
            let cluster = container.labels?.get(CLUSTER_LABEL)?.clone();
            let name = container.names?.into_iter().next()?;
            Some((cluster, name.trim_start_matches('/').to_owned()))
        });
        Ok(named.collect())
    }

    /// Runs a command in a container to its end, and returns what it printed.
    ///
    /// # Errors
    /// One line: why it did not run, or what it printed when it failed.
    pub(super) async fn execute(&self, container: &str, command: &[&str]) -> Result<String, String> {
        let shown = command.join(" ");
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
        match tokio::time::timeout(ANSWER_LIMIT, executing).await {
            Ok(Ok((printed, Some(0)))) => Ok(printed),
            Ok(Ok((printed, _))) => Err(format!("{shown} failed in {container}: {}", printed.trim())),
            Ok(Err(error)) => Err(format!("{shown} does not run in {container}: {error}")),
            Err(_) => Err(format!("{shown} did not end in {container} within {ANSWER_LIMIT:?}")),
        }
    }
}
