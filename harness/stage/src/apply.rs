//! Writing objects as users do: create, or merge into the object that exists.

use judge::object::text;
use kube::api::{DynamicObject, PatchParams, PostParams};
use scenario::kinds;
use serde_json::Value;

use crate::clusters::Clusters;
use crate::deploy;
use crate::kind_api::KindApi;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::runtime::wait::{await_condition, conditions};
use std::time::Duration;

/// Creates an object, or merges it into the one that is there; in `namespace` unless it names another.
pub async fn apply(clusters: &Clusters, namespace: &str, object: &Value) -> Result<(), String> {
    // What names an account or a role of `deploy/` means that of this run.
    let mut placed = object.clone();
    deploy::place(&mut placed, namespace);
    let object = &placed;
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let namespace = match text(object, "/metadata/namespace") {
        "" => namespace,
        named => named,
    };
    let kind_of = kinds::find(kind)?;
    let api = kind_of.api(clusters.of(kind_of), namespace);
    let body: DynamicObject = serde_json::from_value(object.clone())
        .map_err(|error| format!("cannot apply {kind} {name}: it is no object: {error}"))?;
    match api.create(&PostParams::default(), &body).await {
        Ok(_) if kind == "CustomResourceDefinition" => served(clusters.of(kind_of), name).await,
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            merge(clusters, namespace, kind, name, object, false).await
        }
        Err(error) => Err(format!("cannot apply {kind} {name}: {error}")),
    }
}

pub async fn merge(
    clusters: &Clusters,
    namespace: &str,
    kind: &str,
    name: &str,
    change: &Value,
    status: bool,
) -> Result<(), String> {
    let kind_of = kinds::find(kind)?;
    let api = kind_of.api(clusters.of(kind_of), namespace);
    let (parameters, patch) = (PatchParams::default(), kube::api::Patch::Merge(change));
    let patched = if status {
        api.patch_status(name, &parameters, &patch).await
    } else {
        api.patch(name, &parameters, &patch).await
    };
    patched
        .map(drop)
        .map_err(|error| format!("cannot patch {kind} {name}: {error}"))
}

/// How long a definition may take to be served.
pub(crate) const ESTABLISHED: Duration = Duration::from_secs(30);

/// Waits until the kind of a CRD is served.
///
/// # Errors
/// A sentence that names the definition.
pub async fn served(client: &kube::Client, name: &str) -> Result<(), String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let established = await_condition(api, name, conditions::is_crd_established());
    match tokio::time::timeout(ESTABLISHED, established).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("the CRD {name} is not served: {error}")),
        Err(_) => Err(format!("the CRD {name} is not served after {ESTABLISHED:?}")),
    }
}
