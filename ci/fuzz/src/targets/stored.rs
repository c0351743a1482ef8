//! The properties of an object that the server accepted.

use serde_json::{Value, json};

use super::world::World;
use crate::Violation;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Checks that the object at a path can be read in every form, alone and in a list, written back, and deleted. Writing it back may be
/// refused with one of the codes in `refusals`.
pub(super) fn check(world: &World, path: &str, refusals: &[u16]) -> Result<(), Violation> {
    let Some((collection, _)) = path.rsplit_once('/') else {
        return Ok(());
    };
    let read = world.expect("GET", path, &Value::Null, &[200, 404])?;
    world.expect("GET", collection, &Value::Null, &[200])?;
    if read.code == 404 {
        // The write removed the last finalizer of a deleted object.
        return Ok(());
    }
    for place in [path, collection] {
        world.read_as(place, TABLE, &[200])?;
    }
    let object = read.json();
    world.expect("PUT", path, &object, &[&[200], refusals].concat())?;
    delete(world, path)
}

fn delete(world: &World, path: &str) -> Result<(), Violation> {
    let now = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
    // The namespaces of the system cannot be deleted.
    let deleted = world.expect("DELETE", path, &now, &[200, 202, 403, 404])?;
    if deleted.code == 403 && path.starts_with("/api/v1/namespaces/") {
        return Ok(());
    }
    let left = world.expect("GET", path, &Value::Null, &[200, 404])?;
    if left.code == 404 {
        return Ok(());
    }
    let left = left.json();
    if left["metadata"]["deletionTimestamp"].is_null() {
        return Err(Violation::new(format!("{path} is not deleted: {left}")));
    }
    if left["metadata"]["finalizers"].is_null() {
        return Ok(());
    }
    let release = json!({ "metadata": { "finalizers": null } });
    let released = world.request("PATCH", path, "application/merge-patch+json", &release)?;
    if released.code != 200 {
        return Err(Violation::new(format!(
            "{path} keeps its finalizers: {}",
            released.json()
        )));
    }
    Ok(())
}
