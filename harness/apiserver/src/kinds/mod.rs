//! The built-in resources with their defaults and checks, one file per group of kinds. This module does not read the
//! store or the clock; the module `table` prints objects.

mod admission;
mod api_services;
mod apps;
mod autoscaling;
mod batch;
mod builder;
mod certificates;
mod claims;
mod configuration;
mod coordination;
mod data_sources;
mod devices;
mod events;
mod fields;
mod flow;
mod ingress;
mod limits;
mod metrics;
mod namespaces;
mod network_policies;
mod networking;
mod nodes;
mod pods;
mod policy;
mod quota_admission;
mod quotas;
mod rbac;
mod reviews;
mod scheduling;
mod service_ranges;
mod services;
mod storage;
mod syntax;
mod templates;
#[cfg(test)]
mod tests;
mod volumes;
mod workload_status;

pub(crate) use admission::{validate_client as validate_webhook_client, validate_versions as validate_review_versions};
pub(crate) use api_services::{local as local_api_service, mark_available};
pub(crate) use certificates::{set_requester, stamp_conditions, validate_approval};
pub(crate) use limits::{claim_violations, default_resources, pod_violations};
pub(crate) use pods::{apply_runtime, keep_only_resize, validate_ephemeral, validate_resize};
pub(crate) use quota_admission::consume;
pub(crate) use scheduling::SYSTEM_PRIORITIES;
pub(crate) use service_ranges::allocated;
pub(crate) use services::{Address, PORTS, addresses, missing_ports, ports, set_address, wanted_address};

use crate::resource::Resource;

/// The definitions of all built-in resources.
pub fn builtin() -> Vec<Resource> {
    let groups = [
        namespaces::resources(),
        nodes::resources(),
        pods::resources(),
        configuration::resources(),
        events::resources(),
        services::resources(),
        networking::resources(),
        volumes::resources(),
        storage::resources(),
        apps::resources(),
        batch::resources(),
        coordination::resources(),
        policy::resources(),
        rbac::resources(),
        scheduling::resources(),
        autoscaling::resources(),
        devices::resources(),
        ingress::resources(),
        network_policies::resources(),
        templates::resources(),
        reviews::resources(),
        metrics::resources(),
        quotas::resources(),
        service_ranges::resources(),
        certificates::resources(),
        flow::resources(),
        admission::resources(),
        api_services::resources(),
        vec![definitions()],
    ];
    groups.into_iter().flatten().collect()
}

/// CustomResourceDefinitions; the module `custom` contains their checks and defaults.
fn definitions() -> Resource {
    const TYPE: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    builder::ResourceBuilder::new(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        TYPE,
    )
    .cluster()
    .short(&["crd", "crds"])
    .categories(&["api-extensions"])
    .status()
    .generation(crate::resource::Generation::Spec)
    .requires_version()
    .printer(crate::table::printers::created_at())
    .build()
}
