//! Requests for resources: maps verb and path to the registry and renders the result.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use jiff::SignedDuration;
use serde_json::Value;

use super::body::{decode, media_type};
use super::path::Target;
use super::query::WriteVerb;
use super::review;
use super::watch::Feed;
use super::{
    Body, Exchange, components, containers, encoded_response, kubelet, method_not_allowed, no_such_path, text_response,
    usage,
};
use crate::authorization::{Action, ResourceAction};
use crate::faults::OpenWatch;
use crate::kinds;
use crate::registry::{
    DeleteOptions, Entry, FieldValidation, ListOptions, ListRevision, Part, PatchKind, Payload, Registry, WriteOptions,
    Written, let_perform,
};
use crate::resource::{Endpoint, Subresource};
use crate::reviewer::{Operation, Subject};
use crate::status::ApiError;
use crate::store::{Key, Object, Scope};
use crate::types;
use crate::types::time::after;

/// The media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";
/// How long a request waits for a future revision.
const REVISION_WAIT: Duration = Duration::from_secs(3);
/// The minimum default timeout of a watch in seconds; the maximum is twice as long.
const WATCH_SECONDS: u64 = 1800;

/// The verb of a request for authorization and traces.
pub(super) fn verb(method: &Method, target: &Target, watch: bool) -> &'static str {
    match (method.as_str(), &target.name) {
        ("GET" | "HEAD", Some(_)) => "get",
        ("GET" | "HEAD", None) if watch => "watch",
        ("GET" | "HEAD", None) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", Some(_)) => "delete",
        ("DELETE", None) => "deletecollection",
        _ => "",
    }
}

pub(super) async fn serve(exchange: &Exchange<'_>, target: &Target, verb: &str) -> Result<Response<Body>, ApiError> {
    let catalog = exchange.server.registry.catalog();
    if !target.group.is_empty() && !catalog.has_group(&target.group) {
        return Ok(super::page_not_found());
    }
    let Some(entry) = catalog.find(&target.group, &target.version, &target.plural) else {
        if catalog.has_custom_resources_only(&target.group) {
            return Ok(super::page_not_found());
        }
        return Err(no_such_path());
    };
    let resource = &entry.resource;
    if resource.endpoint == Endpoint::Review {
        if resource.namespaced != target.namespace.is_some() {
            return Err(no_such_path());
        }
        if verb != "create" || target.name.is_some() {
            return Err(method_not_allowed());
        }
        let namespace = target.namespace.as_deref().unwrap_or_default();
        if resource.kind == "Binding" {
            return bind(exchange, entry, namespace);
        }
        let review = super::reviews::answer(exchange, entry, namespace)?;
        return Ok(encoded_response(201, exchange.presentation.value(&review)));
    }
    if target.namespace.is_some() && !resource.namespaced {
        return Err(no_such_path());
    }
    if resource.endpoint == Endpoint::Computed {
        if resource.plural == "componentstatuses" {
            return components::serve(exchange, entry, target, verb);
        }
        return usage::serve(exchange, entry, target, verb);
    }
    let Some(name) = &target.name else {
        return collection(exchange, entry, target, verb).await;
    };
    if resource.namespaced && target.namespace.is_none() {
        return Err(no_such_path());
    }
    let key = Key::new(target.namespace.as_deref().unwrap_or_default(), name);
    match &target.subresource {
        None => object(exchange, entry, &key, verb).await,
        Some(subresource) => {
            let subresource = resource.subresource(subresource).ok_or_else(no_such_path)?;
            if containers::is_for_kubelet(subresource, verb)
                && let Some(response) = Box::pin(containers::serve(exchange, entry, &key, subresource)).await?
            {
                return Ok(response);
            }
            self::subresource(exchange, entry, &key, subresource, verb)
        }
    }
}

async fn collection(
    exchange: &Exchange<'_>,
    entry: &Entry,
    target: &Target,
    verb: &str,
) -> Result<Response<Body>, ApiError> {
    let registry = &exchange.server.registry;
    let namespace = target.namespace.as_deref();
    match verb {
        "watch" => watch(exchange, entry, namespace),
        "list" => {
            let mut options = exchange.query.list(entry)?;
            if let Some(stale) = exchange.stale {
                age(registry, entry, &mut options, stale);
            }
            if let ListRevision::NotOlderThan(revision) | ListRevision::Exact(revision) = options.revision {
                wait_for(exchange, revision).await?;
            }
            let page = registry.list(entry, namespace, &options)?;
            let mut response = encoded_response(200, exchange.presentation.list(entry, &page, exchange.now)?);
            exchange.note_list(entry, namespace, &options, &page, &mut response);
            Ok(response)
        }
        "create" => {
            if entry.resource.namespaced && namespace.is_none() {
                return Err(method_not_allowed());
            }
            let namespace = namespace.unwrap_or_default();
            let mut options = review::write_options(exchange, entry, namespace, WriteVerb::Create)?;
            let mut body = decode(
                exchange.headers,
                exchange.body,
                entry.resource.is_custom(),
                Some(&mut options),
            )?;
            if entry.resource.kind == "CertificateSigningRequest" {
                kinds::set_requester(&mut body, &exchange.caller.info());
            }
            written(exchange, entry, registry.create(entry, namespace, body, &options)?)
        }
        "deletecollection" => {
            let one_by_one = entry.resource.group.is_empty() && entry.resource.plural == "namespaces";
            if one_by_one || (entry.resource.namespaced && namespace.is_none()) {
                return Err(method_not_allowed());
            }
            let list = exchange.query.list(entry)?;
            let (page, warnings) =
                registry.delete_collection(entry, namespace, &list, &delete_options(exchange, entry)?)?;
            let mut response = encoded_response(200, exchange.presentation.list(entry, &page, exchange.now)?);
            warn(&mut response, warnings);
            Ok(response)
        }
        _ => Err(method_not_allowed()),
    }
}

/// Makes a list return an earlier revision, but none older than the list or the history allows.
fn age(registry: &Registry, entry: &Entry, options: &mut ListOptions, stale: u64) {
    let least = match options.revision {
        ListRevision::NotOlderThan(revision) => revision,
        ListRevision::Newest => 0,
        ListRevision::Exact(_) => return,
    };
    if options.continue_token.is_some() {
        return;
    }
    if options.revision == ListRevision::NotOlderThan(0) {
        // A watch cache ignores the limit.
        options.limit = 0;
    }
    let oldest = registry.store().oldest(&entry.table).unwrap_or_default();
    options.revision = ListRevision::Exact(stale.max(least).max(oldest));
}

/// The object at an earlier revision, but none older than the read or the history allows.
fn earlier(exchange: &Exchange<'_>, entry: &Entry, key: &Key, stale: u64) -> Result<Arc<Object>, ApiError> {
    let registry = &exchange.server.registry;
    let least = exchange.query.get("resourceVersion").and_then(|text| text.parse().ok());
    let oldest = registry.store().oldest(&entry.table).unwrap_or_default();
    let revision = stale.max(least.unwrap_or_default()).max(oldest);
    let scope = Scope {
        namespace: entry.resource.namespaced.then(|| key.namespace.clone()),
        after: None,
    };
    let listing = registry.store().list(&entry.table, &scope, Some(revision));
    let objects = listing.map(|listing| listing.objects).unwrap_or_default();
    let found = objects.into_iter().find(|object| object.key == *key);
    found.ok_or_else(|| ApiError::not_found(&entry.resource, &key.name))
}

async fn object(exchange: &Exchange<'_>, entry: &Entry, key: &Key, verb: &str) -> Result<Response<Body>, ApiError> {
    let registry = &exchange.server.registry;
    match verb {
        "get" => {
            if let Some(revision) = exchange.query.least_revision()? {
                wait_for(exchange, revision).await?;
            }
            let object = match exchange.stale {
                Some(stale) => earlier(exchange, entry, key, stale)?,
                None => registry.get(&entry.storage(), key)?,
            };
            let object = entry.shown(&object)?;
            let mut response = encoded_response(200, exchange.presentation.object(entry, &object, exchange.now)?);
            exchange.note_object(entry, &object, &mut response);
            Ok(response)
        }
        "update" | "patch" => change(exchange, entry, key, Part::Main, verb),
        "delete" => {
            let options = delete_options(exchange, entry)?;
            written(exchange, entry, registry.delete(&entry.storage(), key, &options)?)
        }
        _ => Err(method_not_allowed()),
    }
}

fn subresource(
    exchange: &Exchange<'_>,
    entry: &Entry,
    key: &Key,
    subresource: &Subresource,
    verb: &str,
) -> Result<Response<Body>, ApiError> {
    let registry = &exchange.server.registry;
    let write_options = |verb| review::write_options(exchange, entry, &key.namespace, verb);
    match (subresource, verb) {
        (
            Subresource::Status | Subresource::Approval | Subresource::EphemeralContainers | Subresource::Resize,
            "get",
        ) => {
            let object = entry.shown(&registry.get(&entry.storage(), key)?)?;
            Ok(encoded_response(
                200,
                exchange.presentation.object(entry, &object, exchange.now)?,
            ))
        }
        (Subresource::Status, "update" | "patch") => change(exchange, entry, key, Part::Status, verb),
        (Subresource::Approval, "update" | "patch") => change(exchange, entry, key, Part::Approval, verb),
        (Subresource::EphemeralContainers, "update" | "patch") => {
            change(exchange, entry, key, Part::EphemeralContainers, verb)
        }
        (Subresource::Resize, "update" | "patch") => change(exchange, entry, key, Part::Resize, verb),
        (Subresource::Finalize, "update") => change(exchange, entry, key, Part::Finalize, verb),
        (Subresource::Scale { .. }, "get") => Ok(encoded_response(
            200,
            exchange.presentation.value(&registry.scale(entry, key)?),
        )),
        (Subresource::Scale { .. }, "update") => {
            let mut options = write_options(WriteVerb::Update)?;
            let scale = decode(exchange.headers, exchange.body, false, Some(&mut options))?;
            written(exchange, entry, registry.update_scale(entry, key, &scale, &options)?)
        }
        (Subresource::Scale { .. }, "patch") => {
            if media_type(exchange.headers) == APPLY {
                let options = write_options(WriteVerb::Apply)?;
                return written(
                    exchange,
                    entry,
                    registry.apply_scale(entry, key, exchange.body, &options)?,
                );
            }
            let body = patch_body(exchange)?;
            let kind = PatchKind::of(media_type(exchange.headers), &entry.resource)?;
            let options = write_options(WriteVerb::Patch)?;
            written(
                exchange,
                entry,
                registry.patch_scale(entry, key, kind, &body, &options)?,
            )
        }
        (Subresource::Eviction, "create") => {
            let options = write_options(WriteVerb::Create)?;
            let mut eviction = decode(exchange.headers, exchange.body, false, None)?;
            let warnings = perform(key, ("policy/v1", "Eviction"), &mut eviction, &options)?;
            let done = registry.evict(entry, key, &eviction, options.dry_run)?;
            written(exchange, entry, done.with_warnings(warnings))
        }
        (Subresource::Binding, "create") => {
            let options = write_options(WriteVerb::Create)?;
            let mut binding = decode(exchange.headers, exchange.body, false, None)?;
            let warnings = perform(key, ("v1", "Binding"), &mut binding, &options)?;
            let done = registry.bind(entry, key, &binding, &options)?;
            written(exchange, entry, done.with_warnings(warnings))
        }
        (Subresource::Token, "create") => {
            let options = write_options(WriteVerb::Create)?;
            let mut request = decode(exchange.headers, exchange.body, false, None)?;
            let warnings = perform(
                key,
                ("authentication.k8s.io/v1", "TokenRequest"),
                &mut request,
                &options,
            )?;
            let token = exchange.server.request_token(key, request, options.dry_run)?;
            let mut response = encoded_response(201, exchange.presentation.value(&token));
            warn(&mut response, warnings);
            Ok(response)
        }
        (Subresource::Log, "get") => {
            let pod = registry.get(entry, key)?.value().map_err(ApiError::internal)?;
            let options = exchange.query.log(exchange.now)?;
            let log = kubelet::log(&pod, &events_of(registry, &pod), &options)?;
            Ok(text_response(200, &log))
        }
        (Subresource::Connect { name: "proxy", .. }, _) => {
            registry.get(entry, key)?;
            Err(kubelet::proxy_refusal(&entry.resource.singular, &key.name))
        }
        (Subresource::Connect { name, .. }, "get" | "create") => {
            let pod = registry.get(entry, key)?.value().map_err(ApiError::internal)?;
            Err(kubelet::refusal(&pod, name))
        }
        _ => Err(method_not_allowed()),
    }
}

/// Lets policies and webhooks decide about an object of a subresource, which has that version and kind.
fn perform(
    key: &Key,
    (version, kind): (&str, &str),
    value: &mut Value,
    options: &WriteOptions,
) -> Result<Vec<String>, ApiError> {
    if let Some(object) = value.as_object_mut() {
        object.entry("apiVersion").or_insert_with(|| version.into());
        object.entry("kind").or_insert_with(|| kind.into());
    }
    let subject = Subject {
        operation: Operation::Create,
        namespace: &key.namespace,
        name: &key.name,
        new: None,
        old: None,
    };
    let_perform(subject, value, options)
}

/// Binds the pod that a Binding names.
fn bind(exchange: &Exchange<'_>, entry: &Entry, namespace: &str) -> Result<Response<Body>, ApiError> {
    let registry = &exchange.server.registry;
    let catalog = registry.catalog();
    let pods = catalog.find("", "v1", "pods").ok_or_else(no_such_path)?;
    let options = review::write_options(exchange, entry, namespace, WriteVerb::Create)?;
    let mut binding = decode(exchange.headers, exchange.body, false, None)?;
    let name = binding
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let key = Key::new(namespace, name);
    let warnings = perform(&key, ("v1", "Binding"), &mut binding, &options)?;
    let done = registry.bind(pods, &key, &binding, &options)?;
    written(exchange, pods, done.with_warnings(warnings))
}

/// The events about a pod.
fn events_of(registry: &Registry, pod: &Value) -> Vec<Value> {
    let catalog = registry.catalog();
    let Some(entry) = catalog.find("", "v1", "events") else {
        return Vec::new();
    };
    let of = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let scope = Scope {
        namespace: Some(of("/metadata/namespace").to_owned()),
        after: None,
    };
    let listing = registry.store().list(&entry.table, &scope, None);
    let objects = listing.map(|listing| listing.objects).unwrap_or_default();
    let about =
        |event: &Value| event.pointer("/involvedObject/uid").and_then(Value::as_str) == Some(of("/metadata/uid"));
    let events = objects.iter().filter_map(|object| object.value().ok());
    events.filter(about).collect()
}

fn change(
    exchange: &Exchange<'_>,
    entry: &Entry,
    key: &Key,
    part: Part,
    verb: &str,
) -> Result<Response<Body>, ApiError> {
    let registry = &exchange.server.registry;
    let write_options = |verb| review::write_options(exchange, entry, &key.namespace, verb);
    let done = if verb == "patch" && media_type(exchange.headers) == APPLY {
        let options = write_options(WriteVerb::Apply)?;
        registry.apply(entry, key, part, exchange.body, &options, || {
            may_create(exchange, entry, key)
        })?
    } else if verb == "patch" {
        let kind = PatchKind::of(media_type(exchange.headers), &entry.resource)?;
        let mut options = write_options(WriteVerb::Patch)?;
        let body = patch_body(exchange)?;
        if kind != PatchKind::Json && options.field_validation != FieldValidation::Ignore {
            options.duplicates = types::duplicate_fields(&body);
        }
        registry.patch(entry, key, part, kind, &body, &options)?
    } else {
        let mut options = write_options(WriteVerb::Update)?;
        let body = decode(
            exchange.headers,
            exchange.body,
            entry.resource.is_custom(),
            Some(&mut options),
        )?;
        registry.update(entry, key, part, body, &options)?
    };
    written(exchange, entry, done)
}

/// An applied configuration creates a missing object if the caller may create it.
fn may_create(exchange: &Exchange<'_>, entry: &Entry, key: &Key) -> Result<(), ApiError> {
    let action = Action::Resource(ResourceAction {
        verb: "create".to_owned(),
        group: entry.resource.group.clone(),
        resource: entry.resource.plural.clone(),
        subresource: String::new(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    });
    let server = exchange.server;
    let decision = server
        .authorizer
        .check(server.registry.store(), exchange.caller, &action);
    if decision.allowed {
        return Ok(());
    }
    Err(action.refusal(&exchange.caller.user, &decision.reason))
}

fn patch_body(exchange: &Exchange<'_>) -> Result<Bytes, ApiError> {
    if exchange.body.is_empty() {
        return Err(ApiError::bad_request("error decoding patch: the body is empty"));
    }
    Ok(exchange.body.clone())
}

fn delete_options(exchange: &Exchange<'_>, entry: &Entry) -> Result<DeleteOptions, ApiError> {
    // As upstream, a body replaces the parameters.
    let options = if exchange.body.is_empty() {
        exchange.query.delete()?
    } else {
        DeleteOptions::from_value(&decode(exchange.headers, exchange.body, false, None)?)?
    };
    Ok(review::delete_options(exchange, entry, options))
}

fn written(exchange: &Exchange<'_>, entry: &Entry, written: Written) -> Result<Response<Body>, ApiError> {
    let bytes = match &written.payload {
        Payload::Object(object) => exchange
            .presentation
            .object(entry, &*entry.shown(object)?, exchange.now)?,
        Payload::Value(value) => exchange.presentation.value(value),
    };
    let mut response = encoded_response(written.code, bytes);
    if let Payload::Object(object) = &written.payload {
        exchange.note_object(entry, object, &mut response);
    }
    warn(&mut response, written.warnings);
    Ok(response)
}

/// Adds warnings to a response.
fn warn(response: &mut Response<Body>, mut texts: Vec<String>) {
    texts.sort();
    texts.dedup();
    // As upstream, which does not encode such texts.
    texts.retain(|text| !text.is_empty() && !text.contains(char::is_control));
    for text in shortened(texts) {
        let quoted = Value::from(text).to_string();
        if let Ok(value) = format!("299 - {quoted}").parse() {
            response.headers_mut().append(http::header::WARNING, value);
        }
    }
}

/// Shortens warnings that together are too long for a response, as upstream does.
fn shortened(mut texts: Vec<String>) -> Vec<String> {
    const ALL: usize = 4096;
    const EACH: usize = 256;
    let length = |text: &String| text.chars().count();
    if texts.iter().map(length).fold(0, usize::saturating_add) > ALL {
        for text in &mut texts {
            *text = text.chars().take(EACH).collect();
        }
        let mut left = ALL;
        texts.retain(|text| {
            let fits = left > 0;
            left = left.saturating_sub(length(text));
            fits
        });
    }
    texts
}

fn watch(exchange: &Exchange<'_>, entry: &Entry, namespace: Option<&str>) -> Result<Response<Body>, ApiError> {
    let server = exchange.server;
    let options = exchange.query.watch(entry)?;
    let seconds = options
        .timeout_seconds
        .unwrap_or_else(|| server.watch_seconds(WATCH_SECONDS));
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX).min(i64::from(u32::MAX));
    let watch = match server.registry.watch(entry, namespace, &options) {
        Ok(watch) => watch,
        // Clients expect the error inside the stream.
        Err(error) if error.code == 410 => {
            let encoding = exchange.presentation.encoding;
            let event = super::render::error_event(&error, encoding);
            return Ok(super::watch_response(encoding, Body::whole(event)));
        }
        Err(error) => return Err(error),
    };
    let sent = exchange.sent_by_watch(entry, namespace, &options, &watch);
    let feed = Feed {
        server: server.clone(),
        sent,
        open_watch: OpenWatch::new(exchange.arrival.facts()),
        entry: entry.clone(),
        watch,
        presentation: exchange.presentation,
        timeout: SignedDuration::from_secs(seconds),
        deadline: after(exchange.now, SignedDuration::from_secs(seconds)),
        bookmarks: options.bookmarks,
        _counted: server.count_watch(exchange.arrival),
    };
    let encoding = exchange.presentation.encoding;
    Ok(super::watch_response(encoding, Body::stream(feed.lines())))
}

/// Waits for a future revision, up to `REVISION_WAIT`.
async fn wait_for(exchange: &Exchange<'_>, revision: u64) -> Result<(), ApiError> {
    let store = exchange.server.registry.store();
    if store.revision() >= revision {
        return Ok(());
    }
    let mut revisions = store.revisions();
    let reached = async {
        // The sender lives as long as the store.
        let _ = revisions.wait_for(|newest| *newest >= revision).await;
    };
    tokio::select! {
        biased;
        () = reached => Ok(()),
        () = exchange.server.registry.clock().sleep(REVISION_WAIT) => {
            let message = format!("Timeout: Too large resource version: {revision}, current: {}", store.revision());
            Err(ApiError::new(504, "Timeout", message)
                .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
                .retry_after(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_fit_into_a_response() {
        let few = vec!["unknown field \"a\"".to_owned(), "x".repeat(4000)];
        assert_eq!(shortened(few.clone()), few);
        let many: Vec<String> = (0..100)
            .map(|count| format!("{count}{}", "\u{e4}".repeat(100_000)))
            .collect();
        let short = shortened(many);
        assert_eq!(short.len(), 16);
        assert!(short.iter().all(|text| text.chars().count() == 256));
    }
}
