//! The catalog of served kinds: the result of one discovery, plus the custom resource definitions.
//!
//! Discovery runs only once: built-in kinds do not change while a server runs, and definitions are watched.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use clock::Clock;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::api::{ListParams, Request};
use serde_json::Value;

use super::{Caches, ResourceType, Served, Update};

const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// All kinds that are currently served, in order; empty before discovery completes.
pub fn served(caches: &Caches) -> Vec<Served> {
    let mut all: Vec<Served> = caches.discovered.clone().unwrap_or_default();
    all.extend(
        caches
            .definitions
            .iter()
            .filter_map(|(_, definition)| defined(definition)),
    );
    all.sort();
    all
}

/// The kind that a custom resource definition adds.
fn defined(definition: &CustomResourceDefinition) -> Option<Served> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    let established = conditions
        .iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True");
    if !established {
        return None;
    }
    let spec = &definition.spec;
    let version = spec
        .versions
        .iter()
        .find(|version| version.served && version.storage)
        .or_else(|| spec.versions.iter().find(|version| version.served))?;
    let verbs = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    Some(Served {
        resource: ResourceType {
            group: Cow::Owned(spec.group.clone()),
            version: Cow::Owned(version.name.clone()),
            plural: Cow::Owned(spec.names.plural.clone()),
            kind: Cow::Owned(spec.names.kind.clone()),
            namespaced: spec.scope == "Namespaced",
        },
        verbs: verbs.into_iter().map(str::to_owned).collect(),
    })
}

/// Discovers the built-in kinds once; retries until it succeeds.
pub(crate) fn discover(client: &Client, clock: &Clock) -> BoxStream<'static, Update> {
    let (client, clock) = (client.clone(), clock.clone());
    futures::stream::once(async move {
        let found = loop {
            let discovered = discover_groups(&client);
            match tokio::time::timeout(CALL_TIMEOUT, discovered).await {
                Ok(Ok(found)) => break found,
                Ok(Err(error)) => tracing::warn!(%error, "discovery failed; retrying"),
                Err(_) => tracing::warn!("discovery timed out; retrying"),
            }
            clock.sleep(PAUSE_AFTER_ERROR).await;
        };
        Box::new(move |caches: &mut Caches| {
            caches.discovered = Some(found);
            Vec::new()
        }) as Update
    })
    .boxed()
}

async fn discover_groups(client: &Client) -> Result<Vec<Served>, kube::Error> {
    let custom = definition_names(client).await?;
    let mut versions = vec![(
        String::new(),
        "v1".to_owned(),
        client.list_core_api_resources("v1").await?,
    )];
    for group in client.list_api_groups().await?.groups {
        let preferred = group.preferred_version.as_ref().map(|version| version.version.clone());
        let mut names: Vec<String> = group.versions.iter().map(|version| version.version.clone()).collect();
        names.sort_by_key(|name| Some(name) != preferred.as_ref());
        for version in names {
            // An unavailable aggregated API server must not hide the other groups.
            match client
                .list_api_group_resources(&format!("{}/{version}", group.name))
                .await
            {
                Ok(list) => versions.push((group.name.clone(), version, list)),
                Err(error) => tracing::warn!(group = group.name, %error, "a group cannot be discovered"),
            }
        }
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (group, version, list) in versions {
        for served in resources(&group, &version, list) {
            let name = served.resource.to_string();
            if !custom.contains(&name) && seen.insert(name) {
                found.push(served);
            }
        }
    }
    Ok(found)
}

fn resources(group: &str, version: &str, list: APIResourceList) -> impl Iterator<Item = Served> {
    let whole = |name: &str| !name.contains('/');
    list.resources
        .into_iter()
        .filter(move |resource| whole(&resource.name))
        .map({
            let (group, version) = (group.to_owned(), version.to_owned());
            move |resource| Served {
                resource: ResourceType {
                    group: Cow::Owned(group.clone()),
                    version: Cow::Owned(version.clone()),
                    plural: Cow::Owned(resource.name),
                    kind: Cow::Owned(resource.kind),
                    namespaced: resource.namespaced,
                },
                verbs: resource.verbs.into_iter().collect(),
            }
        })
}

/// The names of all definitions, `PLURAL.GROUP`; their kinds come from the definitions, not from discovery.
async fn definition_names(client: &Client) -> Result<BTreeSet<String>, kube::Error> {
    let path = ResourceType::of::<CustomResourceDefinition>().path("");
    let request = Request::new(path)
        .list_metadata(&ListParams::default())
        .map_err(kube::Error::BuildRequest)?;
    let list: Value = client.request(request).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}
