//! Schedules pods and prints the duration: `schedule [NODES] [PODS]`, 1,000 each by default. Measures only the
//! decisions and the updates of the cluster between them.

use std::sync::Arc;

use clock::Clock;
use controllers::Caches;
use controllers::scheduler::cluster::{Cluster, World};
use controllers::scheduler::place::place;
use controllers::scheduler::pod::PodInfo;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().map_or(Ok(1000), |text| text.parse::<usize>());
    let (nodes, pods) = (number()?, number()?);
    let caches = Caches::default();
    let mut cluster = Cluster::default();
    for index in 0..nodes {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": format!("node-{index}"), "labels": { "zone": format!("zone-{}", index % 3) } },
            "spec": { "taints": [{ "key": "special", "effect": "PreferNoSchedule" }] },
            "status": { "allocatable": { "cpu": "8", "memory": "32Gi", "pods": "110" } },
        }))?;
        cluster.set_node(Arc::new(node));
    }
    let pods: Vec<Arc<Pod>> = (0..pods)
        .map(|index| {
            let requests = json!({ "cpu": "250m", "memory": "512Mi" });
            serde_json::from_value::<Pod>(json!({
                "metadata": { "name": format!("pod-{index}"), "namespace": "default", "labels": { "app": "web" } },
                "spec": {
                    "containers": [{ "name": "main", "resources": { "requests": requests } }],
                    "nodeSelector": { "zone": format!("zone-{}", index % 3) },
                },
            }))
            .map(Arc::new)
        })
        .collect::<Result<_, _>>()?;
    let clock = Clock::wall();
    let start = clock.now();
    let mut placed = 0;
    for pod in &pods {
        let info = PodInfo::new(Arc::clone(pod));
        let world = World {
            cluster: &cluster,
            caches: &caches,
        };
        if let Ok(placement) = place(world, &info) {
            cluster.place(Arc::new(info), &placement.node);
            placed += 1;
        }
    }
    println!(
        "{placed} of {} pods on {nodes} nodes in {:#}",
        pods.len(),
        clock.now().duration_since(start)
    );
    Ok(())
}
