//! The default ServiceAccount of each namespace.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Reason, takes_objects};
use crate::{Action, Change, Controller, Kind, ObjectKey, Plan, Queue, View};

const NAME: &str = "default";

/// Creates the ServiceAccount `default` in every namespace without one.
#[derive(Debug)]
pub struct ServiceAccounts;

impl Controller for ServiceAccounts {
    type Key = String;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "serviceaccount-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Namespace, Kind::ServiceAccount])
    }

    fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<String>) {
        if change.of::<Namespace>().is_some() {
            queue.add(change.key.name.clone());
        } else if change
            .of::<ServiceAccount>()
            .is_some_and(|account| account.after.is_none())
            && change.key.name == NAME
        {
            queue.add(change.key.namespace.clone());
        }
    }

    fn decide(&mut self, name: &String, view: View<'_>) -> Plan<Reason> {
        let namespace = view.caches.namespaces.get(&ObjectKey::cluster(name));
        let account = view.caches.service_accounts.named(name, NAME);
        if !namespace.is_some_and(|namespace| takes_objects(namespace)) || account.is_some() {
            return Plan::nothing();
        }
        let account = ServiceAccount {
            metadata: ObjectMeta {
                namespace: Some(name.clone()),
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        Plan::act(Reason::Missing, Action::create(&account))
    }
}
