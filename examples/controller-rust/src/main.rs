//! A controller of widgets with kube-rs: an example of a controller that drydock tests.
//!
//! A widget of size 3 named `w` gets the ConfigMaps `w-0`, `w-1` and `w-2`. With `--bug` the controller has a planted bug:
//! it trusts the number of parts in the status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Object};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The label of a part with the name of its widget.
const WIDGET: &str = "example.com/widget";
/// The time between two passes over a widget.
const PERIOD: Duration = Duration::from_millis(300);
/// How long the controller waits after an error.
const RETRY: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spec {
    size: u32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Status {
    #[serde(default)]
    parts: u32,
}

type Widget = Object<Spec, Status>;

struct Context {
    client: Client,
    resource: ApiResource,
    has_bug: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<Widget> = Api::default_namespaced_with(client.clone(), &resource);
    let context = Arc::new(Context {
        client,
        resource: resource.clone(),
        has_bug: std::env::args().any(|argument| argument == "--bug"),
    });
    Controller::new_with(widgets, watcher::Config::default(), resource)
        .run(reconcile, |_, _, _| Action::requeue(RETRY), context)
        .for_each(|result| async move {
            if let Err(error) = result {
                eprintln!("{error}");
            }
        })
        .await;
    Ok(())
}

/// One pass. The widget is that of a cache, which may be old.
async fn reconcile(widget: Arc<Widget>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let size = widget.spec.size;
    let known = widget.status.as_ref().map_or(0, |status| status.parts);
    let parts: Api<ConfigMap> = Api::default_namespaced(context.client.clone());
    if context.has_bug && known <= size {
        // The status does not say what exists: it may be old, or its last write may have failed. A name that is taken
        // belongs to another widget, so it takes the next one.
        let mut next = known;
        for _ in known..size {
            while !create(&parts, &part_name(&widget, next), &widget, &context).await? {
                next += 1;
            }
            next += 1;
        }
    } else {
        // What the API server has, not what the status says.
        let of_widget = ListParams::default().labels(&format!("{WIDGET}={}", widget.name_any()));
        let existing = parts.list(&of_widget).await?.items;
        let existing: BTreeSet<String> = existing.iter().map(ResourceExt::name_any).collect();
        let wanted: BTreeSet<String> = (0..size).map(|number| part_name(&widget, number)).collect();
        for part in wanted.difference(&existing) {
            create(&parts, part, &widget, &context).await?;
        }
        for part in existing.difference(&wanted) {
            delete(&parts, part).await?;
        }
    }
    if known != size {
        write_status(&widget, &context, size).await?;
    }
    Ok(Action::requeue(PERIOD))
}

/// Creates a part; returns whether it did not exist.
async fn create(parts: &Api<ConfigMap>, name: &str, widget: &Widget, context: &Context) -> Result<bool, kube::Error> {
    let owner = OwnerReference {
        api_version: context.resource.api_version.clone(),
        kind: context.resource.kind.clone(),
        name: widget.name_any(),
        uid: widget.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let part = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(WIDGET.to_owned(), widget.name_any())].into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    match parts.create(&PostParams::default(), &part).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

fn part_name(widget: &Widget, number: u32) -> String {
    format!("{}-{number}", widget.name_any())
}

async fn delete(parts: &Api<ConfigMap>, name: &str) -> Result<(), kube::Error> {
    match parts.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

async fn write_status(widget: &Widget, context: &Context, parts: u32) -> Result<(), kube::Error> {
    let widgets: Api<Widget> = Api::default_namespaced_with(context.client.clone(), &context.resource);
    let patch = Patch::Merge(json!({ "status": { "parts": parts } }));
    widgets
        .patch_status(&widget.name_any(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}
