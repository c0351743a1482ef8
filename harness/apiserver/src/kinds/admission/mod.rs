//! The group admissionregistration.k8s.io: webhooks and policies that decide about requests. Resources, defaults and
//! checks only; this module does not evaluate them.

mod matching;
mod policies;
mod webhooks;

pub(crate) use webhooks::{validate_client, validate_versions};

use crate::policies::ExpressionError;
use crate::resource::Resource;
use crate::status::FieldError;

use super::builder::ResourceBuilder;

pub(super) fn resources() -> Vec<Resource> {
    let mut resources = webhooks::resources();
    resources.extend(policies::resources());
    resources
}

fn resource(kind: &str, plural: &str, type_: &'static str) -> ResourceBuilder {
    ResourceBuilder::new("admissionregistration.k8s.io/v1", kind, plural, type_)
        .cluster()
        .categories(&["api-extensions"])
        .generation(crate::resource::Generation::Content)
        .requires_version()
}

/// Adds the errors of expressions. Empty ones have their own errors.
fn expression_errors(errors: &mut Vec<FieldError>, found: Vec<ExpressionError>) {
    let given = found.into_iter().filter(|error| !error.text.trim().is_empty());
    errors.extend(given.map(|ExpressionError { path, text, why }| FieldError::invalid(path, text, why)));
}
