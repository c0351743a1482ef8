//! The versions of a definition, from which the server converts objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{is_true, items, resources, text};
use crate::conversion::Versions;
use crate::network::Network;
use crate::resource::{Resource, Shape};
use crate::status::FieldError;

/// All versions of a definition of that revision; the schemas of `served` resources are shared.
///
/// # Errors
/// The errors of the schemas, with paths relative to the definition.
pub(crate) fn versions(
    crd: &Value,
    served: &[Resource],
    revision: u64,
    network: Arc<Network>,
) -> Result<Versions, Vec<FieldError>> {
    let group = text(crd, "/spec/group");
    let mut schemas = BTreeMap::new();
    let mut storage = String::new();
    for (index, version) in items(crd, "/spec/versions").iter().enumerate() {
        let name = text(version, "/name");
        let shape = served.iter().find(|resource| resource.version == name);
        let schema = match shape.map(|resource| &resource.shape) {
            Some(Shape::Custom(schema)) => Arc::clone(schema),
            _ => resources::compile(index, version)?,
        };
        let api_version = format!("{group}/{name}");
        if is_true(version, "/storage") {
            storage.clone_from(&api_version);
        }
        schemas.insert(api_version, schema);
    }
    let kind = text(crd, "/status/acceptedNames/kind").to_owned();
    let conversion = crd.pointer("/spec/conversion").unwrap_or(&Value::Null);
    let stored = served.iter().find(|resource| resource.api_version() == storage);
    let selectable = stored.map(|resource| resource.selectable.clone()).unwrap_or_default();
    Ok(Versions::new((kind, storage), schemas, conversion, revision, network).with_selectable(selectable))
}
