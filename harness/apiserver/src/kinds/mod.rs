//! The built-in kinds: one row each, with their defaults and checks. One file for each group of
//! kinds. Nothing here reads the store or the clock; how rows are printed is in `table`.

mod apps;
mod batch;
mod configuration;
mod coordination;
mod events;
mod fields;
mod namespaces;
mod networking;
mod nodes;
mod pods;
mod policy;
mod rbac;
mod reviews;
mod row;
mod scheduling;
mod storage;
mod syntax;
#[cfg(test)]
mod tests;
mod volumes;

pub(crate) use scheduling::SYSTEM_PRIORITIES;

use crate::resource::Resource;

/// The rows of all built-in kinds.
pub fn builtin() -> Vec<Resource> {
    let groups = [
        namespaces::rows(),
        nodes::rows(),
        pods::rows(),
        configuration::rows(),
        events::rows(),
        networking::rows(),
        volumes::rows(),
        storage::rows(),
        apps::rows(),
        batch::rows(),
        coordination::rows(),
        policy::rows(),
        rbac::rows(),
        scheduling::rows(),
        reviews::rows(),
        vec![definitions()],
    ];
    groups.into_iter().flatten().collect()
}

/// CustomResourceDefinitions; their checks and defaults are in `custom`.
fn definitions() -> Resource {
    const TYPE: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    row::Row::new(
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
    .demands_version()
    .printer(crate::table::printers::created_at())
    .build()
}
