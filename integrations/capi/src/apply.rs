//! Creates objects.

use std::time::Duration;

use anyhow::Context;
use clock::Clock;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::process::wait_for;

/// How long a kind may take until its objects can be created.
const LIMIT: Duration = Duration::from_secs(20);

/// Applies objects in their order; a kind that is defined shortly before may need a moment.
///
/// # Errors
/// If an object is refused.
pub async fn apply(client: &Client, namespace: &str, objects: Vec<Value>, clock: &Clock) -> anyhow::Result<()> {
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object)?;
        let name = object.name_any();
        let api = api(client, namespace, &object)?;
        let apply = || async {
            let by = PatchParams::apply("comparison").force();
            Ok(api.patch(&name, &by, &Patch::Apply(&object)).await.map(Some)?)
        };
        let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
        wait_for(&format!("the creation of {kind} {name}"), LIMIT, clock, apply).await?;
    }
    Ok(())
}

fn api(client: &Client, namespace: &str, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("an object has no kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let plural = match kind.kind.to_lowercase() {
        class if class.ends_with('s') => format!("{class}es"),
        other => format!("{other}s"),
    };
    let resource = ApiResource::from_gvk_with_plural(&kind, &plural);
    Ok(match kind.kind.as_str() {
        "CustomResourceDefinition" => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

/// The definitions of Cluster API without conversion: the only version that is served is the one that is stored.
///
/// # Errors
/// If the text is no definition.
pub fn definitions(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut definitions: Vec<Value> = serde_saphyr::from_multiple(text)?;
    for definition in &mut definitions {
        let spec = definition.pointer_mut("/spec").context("a definition has no spec")?;
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("conversion");
        }
        if let Some(versions) = spec["versions"].as_array_mut() {
            versions.retain(|version| version["storage"] == true);
        }
    }
    Ok(definitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_stored_version_remains() {
        let text = "{metadata: {name: a}, spec: {conversion: {strategy: Webhook}, versions: [{name: v1, storage: false}, {name: v2, storage: true}]}}";
        let definitions = definitions(text).unwrap();
        assert!(definitions[0].pointer("/spec/conversion").is_none());
        assert_eq!(definitions[0].pointer("/spec/versions/0/name").unwrap(), "v2");
        assert!(definitions[0].pointer("/spec/versions/1").is_none());
    }
}
