//! The decision about the EndpointSlices of one Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::endpoint::{Family, endpoint, families, ports};
use crate::Kind;
use crate::workloads::meta::{self, Owner};
use crate::workloads::plan::Plan;
use quantity::Saturating as _;

/// The maximum number of endpoints per slice.
const MOST: usize = 100;
/// Label: the Service of a slice.
pub const SERVICE: &str = "kubernetes.io/service-name";
/// Label: the controller that manages a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label value of this controller, as upstream.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation: the time of the change that caused the last write of a slice.
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The observed state for a decision about a Service's slices.
#[derive(Clone, Debug)]
pub struct View {
    /// The service.
    pub service: Arc<Service>,
    /// The pods that it selects.
    pub pods: Vec<Arc<Pod>>,
    /// The nodes of these pods, by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// The slices of the service that this controller manages.
    pub slices: Vec<Arc<EndpointSlice>>,
}

/// Decides about the slices of a Service.
pub fn decide(view: &View, _now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let spec = view.service.spec.as_ref();
    let selects = spec.is_some_and(|spec| spec.selector.is_some() && spec.type_.as_deref() != Some("ExternalName"));
    if !selects || meta::is_deleting(&view.service.metadata) {
        return plan;
    }
    let families = families(&view.service);
    for family in &families {
        let mut present: Vec<&Arc<EndpointSlice>> = view
            .slices
            .iter()
            .filter(|slice| slice.address_type == family.name() && !meta::is_deleting(&slice.metadata))
            .collect();
        for (ports, endpoints) in wanted(view, *family) {
            let of_ports: Vec<_> = present.extract_if(.., |slice| has_ports(slice, &ports)).collect();
            spread(&mut plan, view, *family, &ports, endpoints, &of_ports);
        }
        for slice in present {
            plan.delete(Kind::EndpointSlice, &slice.metadata);
        }
    }
    for slice in &view.slices {
        if families.iter().all(|family| family.name() != slice.address_type) {
            plan.delete(Kind::EndpointSlice, &slice.metadata);
        }
    }
    plan
}

type Endpoints = BTreeMap<String, Endpoint>;

/// The desired endpoints by their ports, each by pod uid. Without endpoints there is one empty slice.
fn wanted(view: &View, family: Family) -> Vec<(Vec<EndpointPort>, Endpoints)> {
    let mut by_ports: Vec<(Vec<EndpointPort>, Endpoints)> = Vec::new();
    for pod in &view.pods {
        let node = crate::workloads::pods::node(pod).and_then(|name| view.nodes.get(name));
        let Some(endpoint) = endpoint(&view.service, pod, node.map(AsRef::as_ref), family) else {
            continue;
        };
        let ports = ports(&view.service, pod);
        let uid = meta::uid(&pod.metadata).to_owned();
        match by_ports.iter_mut().find(|(known, _)| *known == ports) {
            Some((_, endpoints)) => {
                endpoints.insert(uid, endpoint);
            }
            None => by_ports.push((ports, BTreeMap::from([(uid, endpoint)]))),
        }
    }
    if by_ports.is_empty() {
        by_ports.push(Default::default());
    }
    by_ports
}

fn has_ports(slice: &EndpointSlice, ports: &[EndpointPort]) -> bool {
    let own = slice.ports.as_deref().unwrap_or_default();
    own.len() == ports.len() && own.iter().all(|port| ports.contains(port))
}

fn uid_of(endpoint: &Endpoint) -> &str {
    let target = endpoint.target_ref.as_ref();
    target.and_then(|target| target.uid.as_deref()).unwrap_or_default()
}

/// Endpoints stay in their slices; new ones fill first the slices that change anyway, then other slices with
/// room, then new slices. Empty slices are deleted, except the last.
fn spread(
    plan: &mut Plan,
    view: &View,
    family: Family,
    ports: &[EndpointPort],
    mut endpoints: Endpoints,
    present: &[&Arc<EndpointSlice>],
) {
    let mut kept: Vec<(&Arc<EndpointSlice>, Vec<Endpoint>, bool)> = Vec::new();
    for slice in present {
        let before = slice.endpoints.as_deref().unwrap_or_default();
        let after: Vec<Endpoint> = before
            .iter()
            .filter_map(|endpoint| endpoints.remove(uid_of(endpoint)))
            .collect();
        let changed = after != before || has_other_labels(view, slice);
        kept.push((slice, after, changed));
    }
    let mut new: Vec<Endpoint> = endpoints.into_values().collect();
    for changed_first in [true, false] {
        for (_, endpoints, changed) in &mut kept {
            if *changed == changed_first && !new.is_empty() {
                let room = MOST.saturating_sub(endpoints.len()).min(new.len());
                if room > 0 {
                    endpoints.extend(new.drain(..room));
                    *changed = true;
                }
            }
        }
    }
    let mut left = kept.iter().filter(|(_, endpoints, _)| !endpoints.is_empty()).count();
    for (slice, endpoints, changed) in kept {
        let last = left == 0 && new.is_empty();
        if endpoints.is_empty() && !last {
            plan.delete(Kind::EndpointSlice, &slice.metadata);
            continue;
        }
        left.raise(usize::from(endpoints.is_empty()));
        if changed {
            let mut after = EndpointSlice::clone(slice);
            after.metadata.labels = Some(labels(view));
            after.endpoints = Some(endpoints);
            note_trigger(&mut after.metadata, view);
            plan.update(after);
        }
    }
    if present.is_empty() && new.is_empty() {
        plan.create(new_slice(view, family, ports, Vec::new()));
    }
    while !new.is_empty() {
        let part: Vec<Endpoint> = new.drain(..MOST.min(new.len())).collect();
        plan.create(new_slice(view, family, ports, part));
    }
}

fn labels(view: &View) -> BTreeMap<String, String> {
    let service = &view.service;
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.retain(|key, _| ![SERVICE, MANAGED_BY, HEADLESS].contains(&key.as_str()));
    let spec = service.spec.as_ref();
    if spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE.to_owned(), meta::name(&service.metadata).to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn has_other_labels(view: &View, slice: &EndpointSlice) -> bool {
    slice.metadata.labels.as_ref() != Some(&labels(view))
}

/// Sets the trigger time: the latest change of the service or of the readiness of one of its pods.
fn note_trigger(metadata: &mut ObjectMeta, view: &View) {
    let ready = view
        .pods
        .iter()
        .filter_map(|pod| {
            crate::workloads::pods::ready_condition(pod)?
                .last_transition_time
                .as_ref()
        })
        .map(|time| time.0)
        .max();
    let time = ready.unwrap_or(meta::created(&view.service.metadata));
    meta::annotate(metadata, TRIGGER, time.to_string());
}

fn new_slice(view: &View, family: Family, ports: &[EndpointPort], endpoints: Vec<Endpoint>) -> EndpointSlice {
    let owner = Owner::of(&*view.service);
    let mut metadata = ObjectMeta {
        namespace: Some(owner.namespace.clone()),
        generate_name: Some(format!("{}-", owner.name)),
        labels: Some(labels(view)),
        owner_references: Some(vec![owner.controller_reference()]),
        ..ObjectMeta::default()
    };
    note_trigger(&mut metadata, view);
    EndpointSlice {
        metadata,
        address_type: family.name().to_owned(),
        ports: (!ports.is_empty()).then(|| ports.to_vec()),
        endpoints: Some(endpoints),
    }
}
