//! The parameters of a binding.

use serde_json::Value;

use crate::policies::{ParamKind, ParamRef};
use crate::registry::{Entry, ListOptions, Registry};
use crate::reviewer::Subject;
use crate::selector::LabelSelector;
use crate::status::ApiError;
use crate::store::Key;

/// Why the parameters of a binding cannot be used; the texts are those of upstream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ParamError {
    #[error("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")]
    NeedlessNamespace,
    #[error("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")]
    NoNamespace,
    #[error("no params found for policy binding with `Deny` parameterNotFoundAction")]
    Missing,
    #[error("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")]
    UnknownKind {
        group: String,
        version: String,
        kind: String,
    },
    /// The parameters cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// The parameters that a binding refers to, for one request. Empty if there are none and the request passes then.
///
/// # Errors
/// The policy cannot be evaluated.
pub(crate) fn find(
    registry: &Registry,
    kind: &ParamKind,
    reference: &ParamRef,
    subject: &Subject<'_>,
) -> Result<Vec<Value>, ParamError> {
    let entry = entry(registry, kind)?;
    let namespace = match (
        entry.resource.namespaced,
        reference.namespace.as_str(),
        subject.namespace,
    ) {
        (false, "", _) => "",
        (false, _, _) => {
            return Err(ParamError::NeedlessNamespace);
        }
        (true, "", "") => {
            return Err(ParamError::NoNamespace);
        }
        (true, "", namespace) | (true, namespace, _) => namespace,
    };
    let found = if reference.name.is_empty() {
        selected(registry, &entry, namespace, &reference.selector)?
    } else {
        match registry.get(&entry, &Key::new(namespace, &reference.name)) {
            Ok(object) => vec![
                object
                    .value()
                    .map_err(|error| ParamError::Unreadable(error.to_string()))?,
            ],
            Err(error) if error.code == 404 => Vec::new(),
            Err(error) => return Err(ParamError::Unreadable(error.message)),
        }
    };
    if found.is_empty() && !reference.allows_none {
        return Err(ParamError::Missing);
    }
    Ok(found)
}

fn entry(registry: &Registry, kind: &ParamKind) -> Result<Entry, ParamError> {
    let catalog = registry.catalog();
    let is_it = |resource: &&std::sync::Arc<crate::resource::Resource>| {
        resource.kind == kind.kind && resource.api_version() == kind.api_version
    };
    let resource = catalog.resources().iter().find(is_it);
    let entry = resource.and_then(|resource| catalog.find(&resource.group, &resource.version, &resource.plural));
    entry.cloned().ok_or_else(|| {
        let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
        ParamError::UnknownKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.kind.clone(),
        }
    })
}

fn selected(registry: &Registry, entry: &Entry, namespace: &str, selector: &str) -> Result<Vec<Value>, ParamError> {
    let unreadable = |error: ApiError| ParamError::Unreadable(error.message);
    let options = ListOptions {
        labels: LabelSelector::parse(selector).map_err(unreadable)?,
        ..ListOptions::default()
    };
    let namespace = entry.resource.namespaced.then_some(namespace);
    let page = registry.list(entry, namespace, &options).map_err(unreadable)?;
    let values = page.objects.iter().map(|object| {
        object
            .value()
            .map_err(|error| ParamError::Unreadable(error.to_string()))
    });
    values.collect()
}
