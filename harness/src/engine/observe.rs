//! Merges all watches of the world into one ordered stream of observations.

use std::collections::BTreeSet;
use std::time::Duration;

use clock::Clock;
use futures::channel::oneshot;
use futures::stream::{self, BoxStream, StreamExt};
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher;
use runtime::error::brief_watch;
use scenario::cloud::CloudEvent;
use scenario::kinds::{self, Kind, Side};
use scenario::observation::Request;
use serde_json::Value;
use stage::cloud::{CloudClient, CloudError};
use stage::clusters::Clusters;
use stage::kind_api::KindApi;

/// An event of a watch, before the engine converts it to observations.
#[derive(Debug)]
pub enum Raw {
    /// The new version of an object.
    Applied(&'static Kind, Box<Value>),
    /// The last version of a deleted object.
    Deleted(&'static Kind, Box<Value>),
    /// A kind is listed again, with the namespaces and names of all objects: others have been deleted.
    Left(&'static Kind, BTreeSet<(String, String)>),
    /// A list of a kind is complete.
    Listed(&'static Kind),
    /// The kind is not served: it has no objects.
    NotServed(&'static Kind),
    /// An event of the cloud.
    Cloud(CloudEvent),
    /// A request of the controller to the API server.
    Request(Request),
    /// An action of an actor of the harness.
    Note(String),
    /// A watch failed and will be retried.
    Failure(String),
}

/// Delay before a failed read is retried.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

/// All watches, of `kinds` and of the cloud, and the `others` as one stream. It never ends.
pub fn watch_everything(
    clusters: &Clusters,
    kinds: &[&'static Kind],
    cloud: &CloudClient,
    clock: &Clock,
    others: impl IntoIterator<Item = BoxStream<'static, Raw>>,
) -> BoxStream<'static, Raw> {
    let mut streams = watches(clusters, kinds, clock);
    streams.push(watch_cloud(cloud.clone(), clock.clone()));
    streams.extend(others);
    stream::select_all(streams).boxed()
}

/// The watches of `kinds` as one stream. It never ends.
pub fn watch_kinds(clusters: &Clusters, kinds: &[&'static Kind], clock: &Clock) -> BoxStream<'static, Raw> {
    stream::select_all(watches(clusters, kinds, clock)).boxed()
}

fn watches(clusters: &Clusters, kinds: &[&'static Kind], clock: &Clock) -> Vec<BoxStream<'static, Raw>> {
    let mut streams: Vec<BoxStream<'static, Raw>> = kinds
        .iter()
        .map(|kind| watch_kind(clusters.of(kind).clone(), kind, clock.clone()))
        .collect();
    if clusters.are_two() {
        let both = kinds.iter().filter(|kind| kind.side == Side::Both);
        streams.extend(both.map(|kind| watch_kind(clusters.target().clone(), kind, clock.clone())));
    }
    streams
}

/// Watches a kind from the time when `served` is sent. If it is dropped, nothing is watched.
pub fn watch_when_served(
    clusters: &Clusters,
    kind: &'static Kind,
    clock: &Clock,
    served: oneshot::Receiver<()>,
) -> BoxStream<'static, Raw> {
    let (client, clock) = (clusters.of(kind).clone(), clock.clone());
    let watch = move |served: Result<(), oneshot::Canceled>| match served {
        Ok(()) => watch_kind(client.clone(), kind, clock.clone()),
        Err(_) => stream::empty().boxed(),
    };
    stream::once(served).flat_map(watch).boxed()
}

fn watch_kind(client: kube::Client, kind: &'static Kind, clock: Clock) -> BoxStream<'static, Raw> {
    let api: Api<DynamicObject> = Api::all_with(client, &kind.resource());
    watch(api, kind, watcher::Config::default(), clock)
}

/// Watches the Lease of that name.
pub fn watch_lease(client: kube::Client, namespace: &str, name: &str, clock: Clock) -> Option<BoxStream<'static, Raw>> {
    let kind = kinds::find("Lease").ok()?;
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    Some(watch(kind.api(&client, namespace), kind, only, clock))
}

fn watch(
    api: Api<DynamicObject>,
    kind: &'static Kind,
    config: watcher::Config,
    clock: Clock,
) -> BoxStream<'static, Raw> {
    let mut listed = Vec::new();
    watcher(api, config.timeout(clock.watch_seconds()))
        .flat_map(move |event| {
            let raws = match event {
                Ok(watcher::Event::Apply(object)) => vec![Raw::Applied(kind, json(kind, &object))],
                Ok(watcher::Event::Delete(object)) => vec![Raw::Deleted(kind, json(kind, &object))],
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    vec![]
                }
                Ok(watcher::Event::InitApply(object)) => {
                    listed.push(object);
                    vec![]
                }
                Ok(watcher::Event::InitDone) => list(kind, std::mem::take(&mut listed)),
                Err(error) if is_not_found(&error) => vec![Raw::NotServed(kind)],
                Err(error) => vec![Raw::Failure(format!(
                    "watch of {}: {}",
                    kind.plural,
                    brief_watch(&error)
                ))],
            };
            stream::iter(raws)
        })
        .then(move |raw| pause_after_failure(raw, clock.clone()))
        .boxed()
}

/// The events of a complete list. Deletions come first, because they preceded the creation of the youngest listed
/// object.
fn list(kind: &'static Kind, objects: Vec<DynamicObject>) -> Vec<Raw> {
    let names = objects.iter().map(|object| {
        let metadata = &object.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        (namespace, metadata.name.clone().unwrap_or_default())
    });
    let mut raws = vec![Raw::Left(kind, names.collect())];
    raws.extend(objects.iter().map(|object| Raw::Applied(kind, json(kind, object))));
    raws.push(Raw::Listed(kind));
    raws
}

/// Watches the cloud from its first event. After a failure it resumes at the next event, because the cloud may have
/// been restarted.
fn watch_cloud(cloud: CloudClient, clock: Clock) -> BoxStream<'static, Raw> {
    type Events = BoxStream<'static, Result<(u64, CloudEvent), CloudError>>;
    stream::unfold((None::<Events>, 0), move |(events, after)| {
        let cloud = cloud.clone();
        async move {
            let failure = |what: String| Some((Raw::Failure(format!("watch of the cloud: {what}")), (None, after)));
            let mut events = match events {
                Some(events) => events,
                None => match cloud.watch(after).await {
                    Ok(events) => events,
                    Err(error) => return failure(error.to_string()),
                },
            };
            match events.next().await {
                Some(Ok((number, event))) => Some((Raw::Cloud(event), (Some(events), number))),
                Some(Err(error)) => failure(error.to_string()),
                None => failure("the stream ended".to_owned()),
            }
        }
    })
    .then(move |raw| pause_after_failure(raw, clock.clone()))
    .boxed()
}

async fn pause_after_failure(raw: Raw, clock: Clock) -> Raw {
    if matches!(raw, Raw::Failure(_) | Raw::NotServed(_)) {
        clock.sleep(RETRY).await;
    }
    raw
}

/// Whether the API server does not serve the kind: its definition was deleted.
fn is_not_found(error: &watcher::Error) -> bool {
    let cause = match error {
        watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause) => cause,
        _ => return false,
    };
    matches!(cause, kube::Error::Api(status) if status.is_not_found())
}

/// The object as JSON, without the data of Secrets and copies of it in annotations. The conversion of a decoded object
/// does not fail.
fn json(kind: &Kind, object: &DynamicObject) -> Box<Value> {
    let mut value = serde_json::to_value(object).unwrap_or(Value::Null);
    if kind.key == "Secret"
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("data");
        fields.remove("stringData");
        let annotations = value
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.retain(|_, text| !text.as_str().is_some_and(record::is_copy));
        }
    }
    Box::new(value)
}

#[cfg(test)]
mod tests {
    use scenario::kinds;

    use super::*;

    #[test]
    fn a_secret_is_observed_without_its_data() {
        let kind = kinds::find("Secret").unwrap();
        let mut object = DynamicObject::new("cloud", &kind.resource());
        let copy = r#"{"kind":"Secret","data":{"token":"cGxhbnRlZA=="}}"#;
        let annotations = [("last-applied", copy), ("note", "kept")];
        object.metadata.annotations = Some(
            annotations
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
        );
        object.data = serde_json::json!({ "data": { "token": "cGxhbnRlZA==" } });
        let seen = json(kind, &object).to_string();
        assert!(!seen.contains("cGxhbnRlZA==") && seen.contains("kept"), "{seen}");
    }

    #[test]
    fn a_list_reports_deletions_before_the_listed_objects() {
        let kind = kinds::find("Machine").unwrap();
        let mut object = DynamicObject::new("m-2", &kind.resource());
        object.metadata.namespace = Some("n".to_owned());
        let raws = list(kind, vec![object]);
        let expected = BTreeSet::from([("n".to_owned(), "m-2".to_owned())]);
        assert!(
            matches!(&raws[..], [Raw::Left(_, names), Raw::Applied(..), Raw::Listed(_)] if *names == expected),
            "{raws:?}"
        );
    }
}
