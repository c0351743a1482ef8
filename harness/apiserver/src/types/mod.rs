//! The built-in types of Kubernetes as data: checks, canonical forms, OpenAPI schemas. This module knows no
//! resources, requests or defaults; the table contains all differences between types.

mod bytes;
mod canonical;
mod check;
mod duplicates;
mod openapi;
pub(crate) mod path;
pub(crate) mod paths;
pub(crate) mod table;
pub(crate) mod time;

pub use self::canonical::{canonicalise, zero};
pub use self::check::check;
pub use self::duplicates::duplicate_fields;
pub use self::openapi::{definition, names_in};

/// Whether the table has a type of that name.
pub fn is_known(type_name: &str) -> bool {
    table::table().find(type_name).is_some()
}

/// The OpenAPI name of the type of a kind's objects: `io.k8s.api.apps.v1.Deployment` for `apps/v1` and `Deployment`.
pub fn name_of(api_version: &str, kind: &str) -> Option<&'static str> {
    table::table().of_kind(api_version, kind).map(|type_| type_.name)
}
