//! Objects of custom resources in the version for which a webhook has a rule, if that is another one than that of the
//! request.

use std::sync::Arc;

use serde_json::Value;

use super::request::Request;
use crate::conversion::Versions;
use crate::policies::Target;
use crate::registry::Registry;
use crate::reviewer::Subject;
use crate::status::ApiError;

/// A conversion between the version of a request and the one that a webhook sees.
pub(super) struct Equivalent {
    versions: Arc<Versions>,
    seen: String,
    requested: String,
}

impl Equivalent {
    /// `None` if the webhook sees the version of the request, and for built-in resources.
    pub(super) fn of(registry: &Registry, request: &Request, seen: &Target) -> Option<Self> {
        let target = &request.target;
        if target.version == seen.version || target.subresource == "scale" {
            return None;
        }
        let catalog = registry.catalog();
        let entry = catalog.find(&target.group, &target.version, &target.resource)?;
        Some(Self {
            versions: Arc::clone(entry.resource.versions.as_ref()?),
            seen: format!("{}/{}", seen.group, seen.version),
            requested: entry.resource.api_version(),
        })
    }

    /// The new and the old object as the webhook sees them.
    ///
    /// # Errors
    /// 500 if the conversion fails.
    pub(super) fn seen(&self, subject: &Subject<'_>) -> Result<[Option<Value>; 2], ApiError> {
        let convert = |object: Option<&Value>| object.map(|object| self.convert(object, &self.seen)).transpose();
        Ok([convert(subject.new)?, convert(subject.old)?])
    }

    /// An object of the webhook in the version of the request.
    ///
    /// # Errors
    /// 500 if the conversion fails.
    pub(super) fn requested(&self, object: &Value) -> Result<Value, ApiError> {
        self.convert(object, &self.requested)
    }

    fn convert(&self, object: &Value, version: &str) -> Result<Value, ApiError> {
        let converted = self.versions.convert_whole(vec![object.clone()], version)?;
        let converted = converted.into_iter().next();
        converted.ok_or_else(|| ApiError::internal("a conversion has no result"))
    }
}
