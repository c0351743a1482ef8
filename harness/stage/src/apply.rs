//! Writes objects as users do: creates them, or merges into existing ones.

use std::time::Duration;

use judge::object::text;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PatchParams, PostParams};
use kube::runtime::wait::{self, await_condition, conditions};
use runtime::error::brief;
use scenario::kinds::{Kinds, UnknownKind};
use scenario::step::Merge;
use serde_json::Value;

use crate::clusters::Clusters;
use crate::deploy;
use crate::kind_api::KindApi;

/// Errors of writing an object.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Scenarios do not support the kind.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// The value is not a Kubernetes object.
    #[error("cannot apply {kind} {name}: it is not an object: {source}")]
    NoObject {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The API server rejects the creation.
    #[error("cannot apply {kind} {name}: {}", brief(source))]
    Create {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The API server rejects the patch.
    #[error("cannot patch {kind} {name}: {}", brief(source))]
    Patch {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The watch for an established CRD fails.
    #[error("the CRD {name} is not served: {source}")]
    Watch {
        /// The definition.
        name: String,
        /// The cause.
        source: Box<wait::Error>,
    },
    /// The API server does not serve a CRD in time.
    #[error("the CRD {name} is not served after {ESTABLISHED:?}")]
    NotServed {
        /// The definition.
        name: String,
    },
}

/// Creates an object of one of `kinds`, or merges it into the existing one; in `namespace` unless the object names another
/// namespace.
///
/// # Errors
/// When the kind is unknown, or the API server refuses the object.
pub async fn apply(clusters: &Clusters, kinds: &Kinds, namespace: &str, object: &Value) -> Result<(), ApplyError> {
    // A reference to an account or role of `deploy/` means the account or role of this run.
    let mut placed = object.clone();
    deploy::place(&mut placed, namespace);
    let object = &placed;
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let namespace = match text(object, "/metadata/namespace") {
        "" => namespace,
        named => named,
    };
    let kind_of = kinds.of_object(object)?;
    let api = kind_of.api(clusters.of(kind_of), namespace);
    let body: DynamicObject = serde_json::from_value(object.clone()).map_err(|source| ApplyError::NoObject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        source,
    })?;
    match api.create(&PostParams::default(), &body).await {
        Ok(_) if kind == "CustomResourceDefinition" => served(clusters.of(kind_of), name).await,
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let change = Merge {
                api_version: Some(kind_of.api_version),
                kind,
                name,
                namespace: None,
                change: placed.clone(),
                status: false,
            };
            merge(clusters, kinds, namespace, &change).await
        }
        Err(source) => Err(ApplyError::Create {
            kind: kind.to_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        }),
    }
}

/// Merges a change into an object of one of `kinds`, or into its status; in `namespace` unless the change names another
/// one.
///
/// # Errors
/// When the kind is unknown, or the API server refuses the change.
pub async fn merge(clusters: &Clusters, kinds: &Kinds, namespace: &str, change: &Merge<'_>) -> Result<(), ApplyError> {
    let Merge { kind, name, .. } = *change;
    let kind_of = kinds.find(change.api_version, kind)?;
    let api = kind_of.api(clusters.of(kind_of), change.namespace.unwrap_or(namespace));
    let (parameters, patch) = (PatchParams::default(), kube::api::Patch::Merge(&change.change));
    let patched = if change.status {
        api.patch_status(name, &parameters, &patch).await
    } else {
        api.patch(name, &parameters, &patch).await
    };
    patched.map(drop).map_err(|source| ApplyError::Patch {
        kind: kind.to_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    })
}

/// How long a definition may take to be served.
pub(crate) const ESTABLISHED: Duration = Duration::from_secs(30);

/// Waits until the kind of a CRD is served.
///
/// # Errors
/// When it is not served in time, or cannot be watched.
pub(crate) async fn served(client: &kube::Client, name: &str) -> Result<(), ApplyError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let established = await_condition(api, name, conditions::is_crd_established());
    match tokio::time::timeout(ESTABLISHED, established).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(ApplyError::Watch {
            name: name.to_owned(),
            source: Box::new(source),
        }),
        Err(_) => Err(ApplyError::NotServed { name: name.to_owned() }),
    }
}
