//! Counts requests for the metrics of the server.

use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;

use super::path::Route;
use super::{Arrival, path};
use crate::inner::Inner;
use crate::metrics::{Counted, Target};

impl Inner {
    /// Counts a response to a request that arrived at `started`.
    pub(super) fn count_response(&self, arrival: &Arrival, code: u16, started: Timestamp) {
        let took = self.registry.clock().now().duration_since(started);
        let took = Duration::try_from(took).unwrap_or_default();
        self.metrics.responded(self.target(arrival), code, took);
    }

    /// Counts a panic of the handler; `None`: it happened before the target was known.
    pub(super) fn count_panic(&self, arrival: Option<&Arrival>) {
        let target = arrival.map_or_else(|| Target::unknown("other"), |arrival| self.target(arrival));
        self.metrics.panicked(&target);
    }

    /// Counts a watch until the result is dropped.
    pub(super) fn count_watch(&self, arrival: &Arrival) -> Option<Counted> {
        let simulated = self.registry.clock().is_simulated();
        (!simulated).then(|| self.metrics.watch(&self.target(arrival)))
    }

    /// What the request is for, in the terms of metrics.
    fn target(&self, arrival: &Arrival) -> Target {
        let unknown = Target::unknown(of_method(&arrival.parts.method));
        let Route::Resource(target) = &arrival.route else {
            return Target {
                subresource: document(&arrival.route, arrival.parts.uri.path()).to_owned(),
                ..unknown
            };
        };
        if !self.is_served(target) {
            return unknown;
        }
        Target {
            group: target.group.clone(),
            version: target.version.clone(),
            resource: target.plural.clone(),
            subresource: target.subresource.clone().unwrap_or_default(),
            scope: match (&target.name, &target.namespace) {
                (Some(_), _) => "resource",
                (None, Some(_)) => "namespace",
                (None, None) => "cluster",
            },
            ..Target::unknown(arrival.metrics_verb())
        }
    }

    fn is_served(&self, target: &path::Target) -> bool {
        let catalog = self.registry.catalog();
        let Some(entry) = catalog.find(&target.group, &target.version, &target.plural) else {
            return false;
        };
        let has = |name: &String| entry.resource.subresources.iter().any(|known| known.name() == name);
        target.subresource.as_ref().is_none_or(has)
    }
}

impl Arrival {
    /// Upstream's verb for metrics.
    fn metrics_verb(&self) -> &'static str {
        match self.verb {
            "get" => "GET",
            "list" => "LIST",
            "watch" => "WATCH",
            "create" => "POST",
            "update" => "PUT",
            "patch" if self.applies() => "APPLY",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            _ => "other",
        }
    }

    /// Whether the request is a server-side apply.
    fn applies(&self) -> bool {
        let media_type = self.parts.headers.get(CONTENT_TYPE);
        media_type.is_some_and(|value| value.as_bytes().starts_with(b"application/apply-patch"))
    }
}

fn of_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

/// The path of a document that monitoring requests; others have none.
fn document(route: &Route, path: &str) -> &'static str {
    match route {
        Route::Metrics => "/metrics",
        Route::Health { .. } => ["/livez", "/readyz"]
            .into_iter()
            .find(|known| path.starts_with(known))
            .unwrap_or("/healthz"),
        _ => "",
    }
}
