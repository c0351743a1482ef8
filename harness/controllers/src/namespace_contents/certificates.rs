//! The ConfigMap `kube-root-ca.crt` of each namespace.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Reason, takes_objects};
use crate::{Action, Change, Controller, Kind, ObjectKey, Plan, Queue, View};

const NAME: &str = "kube-root-ca.crt";
const FIELD: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// The text of kube-controller-manager; clients can read this annotation.
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                         endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                         guaranteed across distributions of Kubernetes clusters.";

/// Publishes the root certificate in every namespace.
#[derive(Debug)]
pub struct RootCertificates {
    certificate: String,
}

impl RootCertificates {
    /// A publisher of this PEM certificate.
    pub fn new(certificate: String) -> Self {
        Self { certificate }
    }

    fn data(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(FIELD.to_owned(), self.certificate.clone())])
    }
}

impl Controller for RootCertificates {
    type Key = String;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Namespace, Kind::ConfigMap])
    }

    fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<String>) {
        if change.of::<Namespace>().is_some() {
            queue.add(change.key.name.clone());
        } else if change.of::<ConfigMap>().is_some() {
            queue.add(change.key.namespace.clone());
        }
    }

    fn decide(&mut self, name: &String, view: View<'_>) -> Plan<Reason> {
        let namespace = view.caches.namespaces.get(&ObjectKey::cluster(name));
        if !namespace.is_some_and(|namespace| takes_objects(namespace)) {
            return Plan::nothing();
        }
        let annotations = BTreeMap::from([(DESCRIPTION.to_owned(), DESCRIBED.to_owned())]);
        let Some(present) = view.caches.root_certificates.named(name, NAME) else {
            let map = ConfigMap {
                metadata: ObjectMeta {
                    namespace: Some(name.clone()),
                    name: Some(NAME.to_owned()),
                    annotations: Some(annotations),
                    ..ObjectMeta::default()
                },
                data: Some(self.data()),
                ..ConfigMap::default()
            };
            return Plan::act(Reason::Missing, Action::create(&map));
        };
        let described = present
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(DESCRIPTION));
        if present.data.as_ref() == Some(&self.data()) && described.is_some_and(|text| text == DESCRIBED) {
            return Plan::nothing();
        }
        let mut map = ConfigMap::clone(present);
        map.data = Some(self.data());
        map.metadata.annotations.get_or_insert_default().extend(annotations);
        Plan::act(Reason::Changed, Action::replace(&map))
    }
}
