//! The endpoints of services.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, items_mut, one_of, text};
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "Endpoints", "endpoints", "io.k8s.api.core.v1.Endpoints")
            .short(&["ep"])
            .printer(printers::endpoints())
            .prepare(prepare_endpoints)
            .build(),
        ResourceBuilder::new(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "endpointslices",
            "io.k8s.api.discovery.v1.EndpointSlice",
        )
        .generation(Generation::Content)
        .printer(printers::endpoint_slices())
        .prepare(prepare_slice)
        .validate(validate_slice)
        .build(),
    ]
}

fn prepare_endpoints(new: &mut Value, _old: Option<&Value>) {
    for subset in items_mut(new, "/subsets") {
        for port in items_mut(subset, "/ports") {
            default(port, "", "protocol", "TCP");
        }
    }
}

fn prepare_slice(new: &mut Value, _old: Option<&Value>) {
    for port in items_mut(new, "/ports") {
        default(port, "", "protocol", "TCP");
        if port.get("name").is_none()
            && let Some(port) = port.as_object_mut()
        {
            port.insert("name".to_owned(), "".into());
        }
    }
}

fn validate_slice(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kinds = ["FQDN", "IPv4", "IPv6"];
    if text(new, "/addressType").is_empty() {
        errors.push(FieldError::required("addressType", ""));
    }
    one_of(&mut errors, new, "/addressType", "addressType", &kinds);
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/addressType");
    }
    errors
}
