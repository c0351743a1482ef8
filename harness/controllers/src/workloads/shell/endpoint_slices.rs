//! The EndpointSlice controller's watches and views.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::{Scene, Workload, pod_of};
use crate::workloads::endpoint_slice::{self, MANAGED_BY, MANAGER, SERVICE};
use crate::workloads::{meta, plan, pods};
use crate::{Change, Kind, ObjectKey, Queue, View};

/// The EndpointSlice controller.
#[derive(Debug, Default)]
pub(crate) struct EndpointSlices;

impl Workload for EndpointSlices {
    type Root = Service;
    const NAME: &'static str = "endpoint-slice-controller";

    fn reads() -> &'static [Kind] {
        &[Kind::EndpointSlice, Kind::Pod, Kind::Node]
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        if let Some(transition) = change.of::<EndpointSlice>() {
            for slice in transition.both() {
                if let Some(service) = meta::label(&slice.metadata, SERVICE) {
                    queue.add(ObjectKey::new(change.key.namespace.clone(), service));
                }
            }
        } else if let Some(transition) = pod_of(change) {
            if transition.before.map(as_endpoint) != transition.after.map(as_endpoint) {
                for pod in transition.both() {
                    queue_services(pod, view, queue);
                }
            }
        } else if let Some(transition) = change.of::<Node>() {
            let zone = |node: Option<&Node>| {
                node.map(|node| meta::label(&node.metadata, "topology.kubernetes.io/zone").map(str::to_owned))
            };
            if zone(transition.before) != zone(transition.after) {
                for pod in view.caches.pods.indexed(&change.key.name) {
                    queue_services(pod, view, queue);
                }
            }
        }
    }

    fn decide(&mut self, service: &Arc<Service>, scene: Scene<'_>) -> plan::Plan {
        let caches = scene.view.caches;
        let namespace = meta::namespace(&service.metadata);
        let pods: Vec<Arc<Pod>> = match selector_of(service) {
            Some(selector) => caches
                .pods
                .in_namespace(namespace)
                .filter(|(_, pod)| runtime::selector::selects(&selector, pod.metadata.labels.as_ref()))
                .map(|(_, pod)| Arc::clone(pod))
                .collect(),
            None => Vec::new(),
        };
        let nodes: BTreeSet<&str> = pods.iter().filter_map(|pod| pods::node(pod)).collect();
        let nodes = nodes
            .into_iter()
            .filter_map(|name| {
                Some((
                    name.to_owned(),
                    Arc::clone(caches.nodes.get(&ObjectKey::cluster(name))?),
                ))
            })
            .collect();
        let slices = caches
            .endpoint_slices
            .indexed(&format!("{namespace}/{}", meta::name(&service.metadata)))
            .filter(|slice| meta::label(&slice.metadata, MANAGED_BY) == Some(MANAGER))
            .cloned()
            .collect();
        let view = endpoint_slice::View {
            service: Arc::clone(service),
            pods,
            nodes,
            slices,
        };
        endpoint_slice::decide(&view, scene.view.now)
    }
}

/// The pod fields that determine an endpoint.
fn as_endpoint(
    pod: &Pod,
) -> (
    ObjectMeta,
    Option<String>,
    Option<k8s_openapi::api::core::v1::PodStatus>,
) {
    let mut status = pod.status.clone();
    if let Some(status) = &mut status {
        status.container_statuses = None;
    }
    let kept = ObjectMeta {
        uid: pod.metadata.uid.clone(),
        labels: pod.metadata.labels.clone(),
        deletion_timestamp: pod.metadata.deletion_timestamp.clone(),
        ..ObjectMeta::default()
    };
    (kept, pods::node(pod).map(str::to_owned), status)
}

fn selector_of(service: &Service) -> Option<LabelSelector> {
    let labels = service.spec.as_ref()?.selector.clone()?;
    Some(LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    })
}

fn queue_services(pod: &Pod, view: View<'_>, queue: &mut Queue<ObjectKey>) {
    for (key, service) in view.caches.services.in_namespace(meta::namespace(&pod.metadata)) {
        if selector_of(service)
            .is_some_and(|selector| runtime::selector::selects(&selector, pod.metadata.labels.as_ref()))
        {
            queue.add(key.clone());
        }
    }
}
