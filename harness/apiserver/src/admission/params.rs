//! The parameters of a binding.

use serde_json::Value;

use crate::policies::{ParamKind, ParamRef};
use crate::registry::{Entry, ListOptions, Registry};
use crate::reviewer::Subject;
use crate::selector::LabelSelector;
use crate::store::Key;

/// The parameters that a binding refers to, for one request. Empty if there are none and the request passes then.
///
/// # Errors
/// The reason why the policy cannot be evaluated.
pub(crate) fn find(
    registry: &Registry,
    kind: &ParamKind,
    reference: &ParamRef,
    subject: &Subject<'_>,
) -> Result<Vec<Value>, String> {
    let entry = entry(registry, kind)?;
    let namespace = match (
        entry.resource.namespaced,
        reference.namespace.as_str(),
        subject.namespace,
    ) {
        (false, "", _) => "",
        (false, _, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "", "") => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned(),
            );
        }
        (true, "", namespace) | (true, namespace, _) => namespace,
    };
    let found = if reference.name.is_empty() {
        selected(registry, &entry, namespace, &reference.selector)?
    } else {
        match registry.get(&entry, &Key::new(namespace, &reference.name)) {
            Ok(object) => vec![object.value().map_err(|error| error.to_string())?],
            Err(error) if error.code == 404 => Vec::new(),
            Err(error) => return Err(error.message),
        }
    };
    if found.is_empty() && !reference.allows_none {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}

fn entry(registry: &Registry, kind: &ParamKind) -> Result<Entry, String> {
    let catalog = registry.catalog();
    let is_it = |resource: &&std::sync::Arc<crate::resource::Resource>| {
        resource.kind == kind.kind && resource.api_version() == kind.api_version
    };
    let resource = catalog.resources().iter().find(is_it);
    let entry = resource.and_then(|resource| catalog.find(&resource.group, &resource.version, &resource.plural));
    entry.cloned().ok_or_else(|| {
        let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
        format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={}'",
            kind.kind
        )
    })
}

fn selected(registry: &Registry, entry: &Entry, namespace: &str, selector: &str) -> Result<Vec<Value>, String> {
    let options = ListOptions {
        labels: LabelSelector::parse(selector).map_err(|error| error.message)?,
        ..ListOptions::default()
    };
    let namespace = entry.resource.namespaced.then_some(namespace);
    let page = registry
        .list(entry, namespace, &options)
        .map_err(|error| error.message)?;
    let values = page
        .objects
        .iter()
        .map(|object| object.value().map_err(|error| error.to_string()));
    values.collect()
}
