//! Endpoints other than resources: discovery, OpenAPI, version and health.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response};
use serde_json::{Value, json};

use super::negotiate::{Form, Offer, form};
use super::path::Route;
use super::{Body, Exchange, accept, json_response, no_such_path, page_not_found, text_response, with_type};
use crate::api_services::Registration;
use crate::discovery::{self, Remote};
use crate::openapi;
use crate::registry::Catalog;
use crate::status::ApiError;

/// The Kubernetes version of the served API.
pub const KUBERNETES_VERSION: &str = "v1.36.0";
/// The oldest minor version whose clients the server supports.
const MIN_COMPATIBILITY_MINOR: &str = "35";

pub(super) fn serve(exchange: &Exchange<'_>, route: &Route, catalog: &Catalog) -> Result<Response<Body>, ApiError> {
    let resources = catalog.resources();
    let found = |document: Option<Value>| document.ok_or_else(no_such_path);
    let document = match route {
        Route::Version => version(),
        Route::Health { check } => return Ok(health(exchange, check)),
        Route::Metrics => return Ok(metrics(exchange)),
        Route::Root => root(resources.iter().map(|resource| resource.api_version())),
        Route::CoreVersions | Route::Groups => return discover(exchange, route, catalog),
        Route::Group { group } => match discovery::group(resources, &remotes(exchange), group) {
            Some(document) => document,
            None => return Ok(page_not_found()),
        },
        Route::Resources { group, .. } if !group.is_empty() && !catalog.has_group(group) => return Ok(page_not_found()),
        Route::Resources { group, version } => found(discovery::resource_list(resources, group, version))?,
        Route::OpenApiV2 => return openapi_v2(exchange, catalog),
        Route::OpenApiIndex => openapi_index(exchange, catalog),
        Route::OpenApiDocument { group_version } => {
            let document = found(openapi::document(resources, group_version))?;
            let mut response = json_response(200, exchange.presentation.value(&document));
            if exchange.query.get("hash").is_some() {
                let lasting = HeaderValue::from_static("public, immutable");
                response.headers_mut().insert(CACHE_CONTROL, lasting);
            }
            return Ok(response);
        }
        Route::Resource(_) | Route::Faults { .. } | Route::Unknown => return Err(no_such_path()),
    };
    Ok(json_response(200, exchange.presentation.value(&document)))
}

/// The group versions that other servers serve.
fn remotes(exchange: &Exchange<'_>) -> Vec<Remote> {
    let server = exchange.server;
    let registrations = server.api_services.registrations(server.registry.store());
    let remote = |registration: &Arc<Registration>| {
        let discovered = server.api_services.discovered(registration);
        Remote {
            group: registration.group.clone(),
            version: registration.version.clone(),
            priorities: registration.priorities,
            items: discovered.map(|discovered| discovered.items()),
        }
    };
    registrations.iter().map(remote).collect()
}

/// The index of OpenAPI v3 documents, with those of other servers.
fn openapi_index(exchange: &Exchange<'_>, catalog: &Catalog) -> Value {
    let mut index = catalog.openapi_index().clone();
    let server = exchange.server;
    for registration in server.api_services.registrations(server.registry.store()).iter() {
        let discovered = server.api_services.discovered(registration);
        if let Some(url) = discovered.and_then(|discovered| discovered.openapi.clone()) {
            index["paths"][registration.path().trim_start_matches('/')] = json!({ "serverRelativeURL": url });
        }
    }
    index
}

/// The OpenAPI v2 document, in protobuf for clients that accept it.
fn openapi_v2(exchange: &Exchange<'_>, catalog: &Catalog) -> Result<Response<Body>, ApiError> {
    let document = catalog.openapi_v2();
    let tag = format!("\"{}\"", document.etag);
    let in_protobuf = accept(exchange.headers).contains("com.github.proto-openapi.spec.v2");
    let (media_type, content) = match in_protobuf {
        true => (openapi::v2::PROTOBUF, &document.protobuf),
        false => ("application/json", &document.json),
    };
    let mut response = match matches_tag(exchange.headers, &tag) {
        true => with_type(304, media_type, Body::whole("")),
        false => with_type(200, media_type, Body::whole(content.clone())),
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(&tag).map_err(ApiError::internal)?);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

fn discover(exchange: &Exchange<'_>, route: &Route, catalog: &Catalog) -> Result<Response<Body>, ApiError> {
    let resources = catalog.resources();
    let core = *route == Route::CoreVersions;
    match form(accept(exchange.headers), Offer::Discovery)? {
        Form::Aggregated(version) => {
            let document = discovery::aggregated(resources, &remotes(exchange), core, version);
            let tag = format!("\"{}\"", discovery::etag(&document));
            let mut response = if matches_tag(exchange.headers, &tag) {
                let mut response = Response::new(Body::whole(""));
                *response.status_mut() = http::StatusCode::NOT_MODIFIED;
                response
            } else {
                json_response(200, exchange.presentation.value(&document))
            };
            let media_type = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
            let headers = response.headers_mut();
            for (name, value) in [(CONTENT_TYPE, media_type.as_str()), (ETAG, tag.as_str())] {
                headers.insert(name, HeaderValue::from_str(value).map_err(ApiError::internal)?);
            }
            headers.insert(VARY, HeaderValue::from_static("Accept"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
            Ok(response)
        }
        _ if core => Ok(json_response(
            200,
            exchange.presentation.value(&discovery::api_versions()),
        )),
        _ => Ok(json_response(
            200,
            exchange
                .presentation
                .value(&discovery::group_list(resources, &remotes(exchange))),
        )),
    }
}

fn matches_tag(headers: &HeaderMap, tag: &str) -> bool {
    headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value == tag)
}

fn version() -> Value {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next(), numbers.next());
    // Go's names.
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": MIN_COMPATIBILITY_MINOR,
        "gitVersion": KUBERNETES_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture),
    })
}

fn metrics(exchange: &Exchange<'_>) -> Response<Body> {
    let text = exchange.server.metrics.text();
    with_type(200, serving::OPEN_METRICS, Body::whole(text))
}

fn health(exchange: &Exchange<'_>, check: &str) -> Response<Body> {
    const CHECKS: [&str; 2] = ["ping", "store"];
    if !check.is_empty() {
        return if CHECKS.contains(&check) {
            text_response(200, "ok")
        } else {
            text_response(404, "404 page not found\n")
        };
    }
    if !exchange.query.flag("verbose") {
        return text_response(200, "ok");
    }
    let lines: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
    text_response(
        200,
        &format!("{lines}{} check passed\n", exchange.path.trim_start_matches('/')),
    )
}

fn root(versions: impl Iterator<Item = String>) -> Value {
    let mut paths: Vec<String> = versions
        .map(|version| {
            if version.contains('/') {
                format!("/apis/{version}")
            } else {
                format!("/api/{version}")
            }
        })
        .chain(
            [
                "/api",
                "/apis",
                "/healthz",
                "/livez",
                "/metrics",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ]
            .map(str::to_owned),
        )
        .collect();
    paths.sort();
    paths.dedup();
    json!({ "paths": paths })
}
