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
        let exists = || self.is_served(&arrival.route);
        self.metrics.responded(&arrival.target(), exists, code, took);
    }

    /// Counts a panic of the handler; `None`: it happened before the target was known.
    pub(super) fn count_panic(&self, arrival: Option<&Arrival>) {
        match arrival {
            Some(arrival) => self
                .metrics
                .panicked(&arrival.target(), || self.is_served(&arrival.route)),
            None => self.metrics.panicked_early(),
        }
    }

    /// Counts a watch of a served resource until the result is dropped.
    pub(super) fn count_watch(&self, arrival: &Arrival) -> Option<Counted> {
        let simulated = self.registry.clock().is_simulated();
        (!simulated).then(|| self.metrics.watch(&arrival.target()))
    }

    fn is_served(&self, route: &Route) -> bool {
        let Route::Resource(path::Target {
            group,
            version,
            plural,
            subresource,
            ..
        }) = route
        else {
            return true;
        };
        let catalog = self.registry.catalog();
        let has = |name: &str| {
            let entry = catalog.find(group, version, plural);
            entry.is_some_and(|entry| entry.resource.subresources.iter().any(|known| known.name() == name))
        };
        match subresource {
            None => catalog.find(group, version, plural).is_some(),
            Some(name) => has(name),
        }
    }
}

impl Arrival {
    /// What the request is for, in the terms of metrics.
    fn target(&self) -> Target<'_> {
        let Route::Resource(target) = &self.route else {
            return Target {
                subresource: document(&self.route, self.parts.uri.path()),
                ..Target::unknown(of_method(&self.parts.method))
            };
        };
        Target {
            verb: self.metrics_verb(),
            group: &target.group,
            version: &target.version,
            resource: &target.plural,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            scope: match (&target.name, &target.namespace) {
                (Some(_), _) => "resource",
                (None, Some(_)) => "namespace",
                (None, None) => "cluster",
            },
        }
    }

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
