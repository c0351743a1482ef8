//! Clients for the kinds that scenarios support.

use kube::api::{Api, ApiResource, DynamicObject};
use scenario::kinds::Kind;

/// Access to a [`Kind`] through kube.
pub trait KindApi {
    /// The kind as a resource of kube.
    fn resource(&self) -> ApiResource;

    /// A client for the kind in a namespace. Cluster-wide kinds ignore the namespace.
    fn api(&self, client: &kube::Client, namespace: &str) -> Api<DynamicObject>;
}

impl KindApi for Kind {
    fn resource(&self) -> ApiResource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    fn api(&self, client: &kube::Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource())
        } else {
            Api::all_with(client.clone(), &self.resource())
        }
    }
}
