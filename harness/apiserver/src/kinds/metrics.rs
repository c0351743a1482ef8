//! The usage of nodes and pods, and the state of components. The HTTP front end computes them.

use super::builder::ResourceBuilder;
use crate::resource::Resource;

pub(super) fn resources() -> Vec<Resource> {
    let usage = |kind: &str, plural: &str, type_| {
        ResourceBuilder::new("metrics.k8s.io/v1beta1", kind, plural, type_).computed()
    };
    vec![
        usage(
            "NodeMetrics",
            "nodes",
            "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics",
        )
        .cluster()
        .build(),
        usage(
            "PodMetrics",
            "pods",
            "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics",
        )
        .build(),
        ResourceBuilder::new(
            "v1",
            "ComponentStatus",
            "componentstatuses",
            "io.k8s.api.core.v1.ComponentStatus",
        )
        .cluster()
        .short(&["cs"])
        .computed()
        .printer(crate::table::printers::component_statuses())
        .build(),
    ]
}
