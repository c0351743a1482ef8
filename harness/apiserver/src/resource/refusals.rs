//! Errors that name an object of a resource, with the messages of `k8s.io/apimachinery/pkg/api/errors`.

use super::Resource;
use crate::status::ApiError;

impl ApiError {
    /// 404: `pods "x" not found`.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.qualified())).about(resource, name)
    }

    /// 409: `pods "x" already exists`.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} {name:?} already exists", resource.qualified()),
        )
        .about(resource, name)
    }

    /// 409: the write is based on an outdated state.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 409: a stale `resourceVersion`.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403: `pods "x" is forbidden: why`.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", resource.qualified())
        } else {
            format!("{} {name:?} is forbidden: {why}", resource.qualified())
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    fn about(self, resource: &Resource, name: &str) -> Self {
        self.of(&resource.group, &resource.plural, name)
    }
}
