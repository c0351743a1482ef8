//! Requests to other controllers, and their templates: objects of kinds that are known only at run time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use kube::core::{GroupVersionKind, Status};
use kube::error::DiscoveryError;
use kube::{Api, Client, ResourceExt, discovery};
use mcm_api::health_check::TemplateReference;
use mcm_api::keys;
use mcm_core::health_check::{Request, RequestKind, RequestView, TemplateView};
use parking_lot::Mutex;
use serde_json::Value;

use super::refused;
use crate::error::{brief, is_already_exists, is_not_found};

/// The resources of kinds, as discovery returned them.
#[derive(Debug, Default)]
pub(crate) struct Resources(Mutex<BTreeMap<RequestKind, ApiResource>>);

/// Reads and writes the requests of one namespace.
pub(crate) struct RemediationRequests<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) resources: &'a Resources,
}

impl RemediationRequests<'_> {
    /// All requests of these kinds.
    pub(crate) async fn list(&self, kinds: &[RequestKind]) -> RequestView {
        let mut requests = Vec::new();
        for kind in kinds {
            match self.list_kind(kind).await {
                Ok(found) => requests.extend(found),
                Err(error) => return RequestView::Unreadable(format!("{}: {}", kind.kind, brief(&error))),
            }
        }
        RequestView::Known(requests)
    }

    async fn list_kind(&self, kind: &RequestKind) -> kube::Result<Vec<Request>> {
        let listed = match self.list_served(kind).await {
            // Its definition was removed, and perhaps created anew, since the last discovery.
            Err(error) if is_not_found(&error) && self.resources.0.lock().remove(kind).is_some() => {
                self.list_served(kind).await
            }
            listed => listed,
        };
        match listed {
            // The objects of a kind end with its definition, but not with one of its versions.
            Err(error) if is_not_found(&error) && !self.is_served_otherwise(kind).await? => Ok(Vec::new()),
            listed => listed,
        }
    }

    async fn list_served(&self, kind: &RequestKind) -> kube::Result<Vec<Request>> {
        let objects = self.api(kind).await?.list(&ListParams::default()).await?;
        Ok(objects.items.into_iter().map(|object| request(kind, &object)).collect())
    }

    /// Whether another version of the group has the kind.
    async fn is_served_otherwise(&self, kind: &RequestKind) -> kube::Result<bool> {
        let (group, _) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
        match discovery::group(self.client, group).await {
            Ok(group) => Ok(group
                .versions()
                .flat_map(|version| group.versioned_resources(version))
                .any(|(resource, _)| resource.kind == kind.kind)),
            Err(kube::Error::Discovery(DiscoveryError::MissingApiGroup(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A template.
    pub(crate) async fn template(&self, template: &TemplateReference) -> TemplateView {
        let kind = RequestKind {
            api_version: template.api_version.clone(),
            kind: template.kind.clone(),
        };
        let api = match self.api(&kind).await {
            Ok(api) => api,
            Err(error) => return TemplateView::Unreadable(brief(&error)),
        };
        match api.get(&template.name).await {
            Ok(object) => match serde_json::to_value(object) {
                Ok(object) => TemplateView::Present(Arc::new(object)),
                Err(error) => TemplateView::Unreadable(error.to_string()),
            },
            Err(error) if is_not_found(&error) => TemplateView::Missing,
            Err(error) => TemplateView::Unreadable(brief(&error)),
        }
    }

    /// Creates a request; succeeds if it exists.
    pub(crate) async fn create(&self, kind: &RequestKind, object: &Value) -> kube::Result<()> {
        let object: DynamicObject = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
        match self.api(kind).await?.create(&PostParams::default(), &object).await {
            Err(error) if is_already_exists(&error) => Ok(()),
            created => created.map(drop),
        }
    }

    /// Deletes a request if it is still the same object; succeeds if it is gone.
    pub(crate) async fn delete(&self, kind: &RequestKind, name: &str, uid: &str) -> kube::Result<()> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.api(kind).await?.delete(name, &parameters).await {
            Err(error) if is_not_found(&error) && !defect!(MissingRequestEndsPass) => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// The API of a kind, whose plural only discovery knows.
    async fn api(&self, kind: &RequestKind) -> kube::Result<Api<DynamicObject>> {
        let known = self.resources.0.lock().get(kind).cloned();
        let resource = match known {
            Some(resource) => resource,
            None => {
                let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
                let gvk = GroupVersionKind::gvk(group, version, &kind.kind);
                let (resource, capabilities) = match discovery::pinned_kind(self.client, &gvk).await {
                    Err(kube::Error::Discovery(DiscoveryError::MissingKind(_))) => {
                        return Err(not_served(&gvk));
                    }
                    Err(kube::Error::Discovery(error)) => return Err(refused(&error.to_string())),
                    found => found?,
                };
                if capabilities.scope == discovery::Scope::Cluster {
                    return Err(refused("its objects are not in namespaces, as machines are"));
                }
                self.resources.0.lock().insert(kind.clone(), resource.clone());
                resource
            }
        };
        Ok(Api::namespaced_with(self.client.clone(), self.namespace, &resource))
    }
}

/// As an API server answers about a kind that it does not have.
fn not_served(kind: &GroupVersionKind) -> kube::Error {
    let message = format!("the API server has no kind {} in {}", kind.kind, kind.api_version());
    kube::Error::Api(Status::failure(&message, "NotFound").with_code(404).boxed())
}

fn request(kind: &RequestKind, object: &DynamicObject) -> Request {
    let annotation = |key: &str| object.annotations().get(key).cloned();
    let created: Option<Timestamp> = object.creation_timestamp().map(|time| time.0);
    Request {
        kind: kind.clone(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        created,
        deleting: object.metadata.deletion_timestamp.is_some(),
        check: annotation(keys::HEALTH_CHECK_ANNOTATION),
        is_orphaned: false,
        template: annotation(keys::CLONED_FROM_NAME_ANNOTATION).unwrap_or_default(),
    }
}
