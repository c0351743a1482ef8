//! Performs the API calls of the storage.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, VolumeAttachment};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Error};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::world::Action;

/// Timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Performs one call; returns whether its effect exists, possibly by another writer. Failures are logged.
pub(super) async fn perform(client: Client, action: &Action) -> bool {
    match tokio::time::timeout(TIMEOUT, call(client, action)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a call of the storage failed");
            false
        }
        Err(_) => {
            tracing::debug!(
                "the API server did not respond to the storage within {} s",
                TIMEOUT.as_secs()
            );
            false
        }
    }
}

async fn call(client: Client, action: &Action) -> Result<(), Error> {
    match action {
        Action::CreateDriver(driver) => create::<CSIDriver>(Api::all(client), driver).await,
        Action::CreateNode(node) => create::<CSINode>(Api::all(client), node).await,
        Action::CreateVolume(volume) => create::<PersistentVolume>(Api::all(client), volume).await,
        Action::PatchNode(name, patch) => merge::<CSINode>(Api::all(client), name, patch).await,
        Action::PatchAttachment(name, patch) => merge::<VolumeAttachment>(Api::all(client), name, patch).await,
        Action::Reschedule(namespace, name, patch) => {
            merge::<PersistentVolumeClaim>(Api::namespaced(client, namespace), name, patch).await
        }
        Action::AttachmentStatus(name, patch) => {
            let attachments: Api<VolumeAttachment> = Api::all(client);
            let patched = attachments
                .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            ignore_not_found(patched.map(drop))
        }
        Action::DeleteVolume(name, uid) => {
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            let volumes: Api<PersistentVolume> = Api::all(client);
            ignore_not_found(volumes.delete(name, &parameters).await.map(drop))
        }
    }
}

/// Creates an object, unless its name exists.
async fn create<K>(api: Api<K>, object: &Value) -> Result<(), Error>
where
    K: kube::Resource + Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object.clone()).map_err(Error::SerdeError)?;
    match api.create(&PostParams::default(), &object).await {
        Err(Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

async fn merge<K>(api: Api<K>, name: &str, patch: &Value) -> Result<(), Error>
where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    ignore_not_found(patched.map(drop))
}

fn ignore_not_found(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
