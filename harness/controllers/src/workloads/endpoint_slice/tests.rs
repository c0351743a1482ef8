use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::{View, decide};
use crate::workloads::plan::Plan;
use crate::workloads::world::World;

fn service(families: &Value) -> Arc<Service> {
    let service = json!({
        "metadata": { "name": "s", "namespace": "n", "uid": "s" },
        "spec": { "selector": { "app": "a" }, "ipFamilies": families, "ports": [{ "port": 80 }] },
    });
    Arc::new(serde_json::from_value(service).unwrap())
}

fn pods(numbers: impl Iterator<Item = usize>) -> Vec<Arc<Pod>> {
    numbers
        .map(|number| {
            let pod = json!({
                "metadata": { "name": format!("p{number}"), "namespace": "n", "uid": format!("p{number:04}") },
                "spec": { "nodeName": "x", "containers": [] },
                "status": {
                    "phase": "Running",
                    "podIPs": [{ "ip": format!("10.0.{}.{}", number / 250, number % 250) }, { "ip": "fd00::1" }],
                },
            });
            Arc::new(serde_json::from_value(pod).unwrap())
        })
        .collect()
}

fn look(world: &mut World, service: &Arc<Service>, pods: Vec<Arc<Pod>>) -> Plan {
    let mut node = Node::default();
    node.metadata.name = Some("x".to_owned());
    let view = View {
        service: Arc::clone(service),
        pods,
        nodes: BTreeMap::from([("x".to_owned(), Arc::new(node))]),
        slices: world.all(),
    };
    let plan = decide(&view, world.now);
    world.perform(&plan);
    plan
}

fn sizes(world: &World) -> Vec<usize> {
    let size = |slice: &EndpointSlice| slice.endpoints.as_ref().map_or(0, Vec::len);
    let mut sizes: Vec<usize> = world.all::<EndpointSlice>().iter().map(|slice| size(slice)).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn endpoints_fill_slices_and_stay_in_them() {
    let mut world = World::new(1);
    let service = service(&json!(["IPv4"]));
    look(&mut world, &service, Vec::new());
    assert_eq!(sizes(&world), [0], "no endpoints result in one empty slice");
    look(&mut world, &service, pods(0..250));
    assert_eq!(sizes(&world), [50, 100, 100]);
    assert!(look(&mut world, &service, pods(0..250)).actions.is_empty());
    let one_more = look(&mut world, &service, pods(0..251));
    assert_eq!(one_more.actions.len(), 1, "only the slice with room changes");
    look(&mut world, &service, pods(200..251));
    assert_eq!(sizes(&world).iter().sum::<usize>(), 51);
    look(&mut world, &service, Vec::new());
    assert_eq!(sizes(&world), [0]);
}

#[test]
fn each_family_has_slices_of_its_own() {
    let mut world = World::new(1);
    let both = service(&json!(["IPv4", "IPv6"]));
    look(&mut world, &both, pods(0..1));
    let families: Vec<String> = world
        .all::<EndpointSlice>()
        .iter()
        .map(|slice| slice.address_type.clone())
        .collect();
    assert_eq!(families, ["IPv4", "IPv6"]);
    look(&mut world, &service(&json!(["IPv6"])), pods(0..1));
    let left = world.all::<EndpointSlice>();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].address_type, "IPv6");
    assert_eq!(left[0].endpoints.as_ref().unwrap()[0].addresses, ["fd00::1"]);
}
