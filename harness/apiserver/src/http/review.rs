//! The options of writes, with the policies and webhooks that decide about them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Exchange;
use super::path::Route;
use super::query::WriteVerb;
use crate::admission::{Kind, Request};
use crate::policies::Target;
use crate::registry::{DeleteOptions, Entry, Propagation, WriteOptions};
use crate::reviewer::Reviewer;
use crate::status::ApiError;

/// The options of a write, with the escalation check of the caller.
pub(super) fn write_options(
    exchange: &Exchange<'_>,
    entry: &Entry,
    namespace: &str,
    verb: WriteVerb,
) -> Result<WriteOptions, ApiError> {
    let server = exchange.server;
    let mut options = exchange.write_options(verb)?;
    options.guard = server
        .authorizer
        .guard(server.registry.store(), exchange.caller, &entry.resource, namespace);
    options.reviewer = reviewer(exchange, entry, options.dry_run, given_options(exchange));
    Ok(options)
}

/// Adds what decides about a deletion.
pub(super) fn delete_options(exchange: &Exchange<'_>, entry: &Entry, mut options: DeleteOptions) -> DeleteOptions {
    let mut given = Map::new();
    if let Some(seconds) = options.grace_period_seconds {
        given.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    if let Some(propagation) = options.propagation {
        let name = match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        };
        given.insert("propagationPolicy".to_owned(), name.into());
    }
    options.reviewer = reviewer(exchange, entry, options.dry_run, given);
    options
}

fn reviewer(
    exchange: &Exchange<'_>,
    entry: &Entry,
    dry_run: bool,
    mut options: Map<String, Value>,
) -> Option<Arc<dyn Reviewer>> {
    if dry_run {
        options.insert("dryRun".to_owned(), json!(["All"]));
    }
    exchange
        .server
        .admission
        .reviewer(exchange.server, || request(exchange, entry, dry_run, options))
}

fn request(exchange: &Exchange<'_>, entry: &Entry, dry_run: bool, options: Map<String, Value>) -> Request {
    let resource = &entry.resource;
    let subresource = match &exchange.arrival.route {
        Route::Resource(target) => target.subresource.clone().unwrap_or_default(),
        _ => String::new(),
    };
    let (group, version, kind) = match subresource.as_str() {
        "scale" => ("autoscaling", "v1", "Scale"),
        "eviction" => ("policy", "v1", "Eviction"),
        "binding" => ("", "v1", "Binding"),
        "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
        _ => (
            resource.group.as_str(),
            resource.version.as_str(),
            resource.kind.as_str(),
        ),
    };
    Request {
        kind: Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        },
        target: Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            subresource,
        },
        is_namespaced: resource.namespaced,
        user: exchange.caller.clone(),
        dry_run,
        options,
    }
}

/// The options of the query.
fn given_options(exchange: &Exchange<'_>) -> Map<String, Value> {
    let fields = ["fieldManager", "fieldValidation"];
    let given = fields
        .into_iter()
        .filter_map(|field| Some((field, exchange.query.get(field)?)));
    given.map(|(field, value)| (field.to_owned(), value.into())).collect()
}
