//! The group resource.k8s.io: devices and claims for them.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, is_set, items_mut, text};
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    let resource = |kind, plural, type_| ResourceBuilder::new("resource.k8s.io/v1", kind, plural, type_);
    vec![
        resource("DeviceClass", "deviceclasses", "io.k8s.api.resource.v1.DeviceClass")
            .cluster()
            .generation(Generation::Spec)
            .printer(printers::device_classes())
            .build(),
        resource(
            "ResourceClaim",
            "resourceclaims",
            "io.k8s.api.resource.v1.ResourceClaim",
        )
        .status()
        .printer(printers::resource_claims())
        .prepare(prepare_claim)
        .validate(|new, old| unchanged(new, old, "/spec"))
        .build(),
        resource(
            "ResourceClaimTemplate",
            "resourceclaimtemplates",
            "io.k8s.api.resource.v1.ResourceClaimTemplate",
        )
        .printer(printers::device_classes())
        .prepare(prepare_template)
        .validate(|new, old| unchanged(new, old, "/spec"))
        .build(),
        resource(
            "ResourceSlice",
            "resourceslices",
            "io.k8s.api.resource.v1.ResourceSlice",
        )
        .cluster()
        .generation(Generation::Spec)
        .selectable("spec.driver", "/spec/driver", "")
        .selectable("spec.nodeName", "/spec/nodeName", "")
        .printer(printers::resource_slices())
        .validate(|new, old| unchanged(new, old, "/spec/driver"))
        .build(),
    ]
}

fn prepare_claim(new: &mut Value, old: Option<&Value>) {
    count_requests(new, "/spec/devices/requests");
    if old.is_none() {
        default(new, "", "status", json!({}));
    }
}

fn prepare_template(new: &mut Value, _old: Option<&Value>) {
    count_requests(new, "/spec/spec/devices/requests");
    default(new, "/spec", "metadata", json!({}));
}

/// Requests are for one device unless they say otherwise.
fn count_requests(new: &mut Value, pointer: &str) {
    for request in items_mut(new, pointer) {
        if is_set(request.get("exactly")) {
            count_request(request, "/exactly");
        }
        for alternative in items_mut(request, "/firstAvailable") {
            count_request(alternative, "");
        }
    }
}

fn count_request(request: &mut Value, pointer: &str) {
    default(request, pointer, "allocationMode", "ExactCount");
    if text(request, &format!("{pointer}/allocationMode")) == "ExactCount" {
        default(request, pointer, "count", 1);
    }
}

fn unchanged(new: &Value, old: Option<&Value>, pointer: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(old) = old {
        immutable(&mut errors, new, old, pointer);
    }
    errors
}
