//! The HTTP front end: maps requests to the registry and renders responses.
//!
//! It knows paths, verbs, media types and query parameters; the registry knows the semantics of writes.

mod admin;
mod body;
mod caller;
mod components;
mod compress;
mod containers;
mod deprecation;
mod disturb;
mod documents;
mod forward;
mod impersonation;
mod kubelet;
mod measure;
mod negotiate;
mod objects;
mod path;
mod protobuf;
mod query;
mod relay;
mod render;
mod review;
mod reviews;
mod sent;
mod usage;
mod version;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;

pub use body::Body;
pub use documents::KUBERNETES_VERSION;

use negotiate::{Encoding, Form, Offer};
use path::Route;
use query::Query;
use render::Presentation;

use crate::authorization::Action;
use crate::field_selector;
use crate::heavy::is_heavy;
use crate::identity::{ANONYMOUS, Identity};
use crate::in_flight::MAX_BODY;
use crate::inner::Inner;
use crate::life::Disconnected;
use crate::observe::RequestRecord;
use crate::registry::WriteOptions;
use crate::resource::Shape;
use crate::status::ApiError;
use crate::table::Include;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// A received request with its caller and target.
struct Arrival {
    parts: Parts,
    body: Bytes,
    route: Route,
    query: Query,
    action: Action,
    verb: &'static str,
    pretty: bool,
    /// The encoding of objects and errors.
    encoding: Encoding,
    /// The effective identity, or the error of its authentication or authorization.
    admitted: Result<Identity, ApiError>,
    /// The user name of the caller, or of the connection.
    client: String,
}

/// A parsed request and the state that its response depends on.
struct Exchange<'a> {
    server: &'a Arc<Inner>,
    method: &'a Method,
    path: &'a str,
    caller: &'a Identity,
    arrival: &'a Arrival,
    headers: &'a HeaderMap,
    body: &'a Bytes,
    query: &'a Query,
    presentation: Presentation,
    now: Timestamp,
    /// Reads return this revision, or the next one that they allow, as a lagging cache does.
    stale: Option<u64>,
}

impl Inner {
    /// Handles a request. `identity` is `None` for a connection without a client certificate; the request can then
    /// have a bearer token. A panic is a bug: the response is a 500 with the ID under which the log has it. In virtual
    /// time it is not caught, so that it fails the run.
    ///
    /// # Errors
    /// If a fault rule breaks the connection.
    pub(crate) async fn handle<B>(
        self: &Arc<Self>,
        identity: Option<&Identity>,
        request: Request<B>,
    ) -> Result<Response<Body>, Disconnected>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.registry.clock().is_simulated() {
            return self.exchange(identity, request, &mut None).await;
        }
        let id = request.headers().get(&AUDIT_ID).cloned();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let started = self.registry.clock().now();
        let in_flight = self.metrics.in_flight(&method);
        let mut arrived = None;
        let exchange = AssertUnwindSafe(Box::pin(self.exchange(identity, request, &mut arrived)));
        let response = match exchange.catch_unwind().await {
            Ok(response) => response?,
            Err(panic) => {
                self.count_panic(arrived.as_ref());
                let id = id.or_else(|| HeaderValue::from_str(&self.audit_id()).ok());
                let text = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
                let why = logs::panic_message(panic.as_ref());
                tracing::error!(%method, path, id = text, panic = why, "a request caused a panic");
                let message = format!(
                    "This request caused apiserver to panic. Look in the logs for details of the request {text}"
                );
                let pretty = arrived.as_ref().is_some_and(|arrival| arrival.pretty);
                let mut response = error_response(&ApiError::internal(message), pretty, Encoding::Json);
                if let Some(id) = id.clone() {
                    response.headers_mut().insert(AUDIT_ID, id);
                }
                if let Some(arrival) = &arrived {
                    // The observer can be what panics, and panics again.
                    let finish = AssertUnwindSafe(|| self.finish(arrival, &mut response));
                    if let Err(panic) = catch_unwind(finish) {
                        let why = logs::panic_message(panic.as_ref());
                        tracing::error!(id = text, panic = why, "the response is not recorded");
                    }
                }
                response
            }
        };
        drop(in_flight);
        if let Some(arrival) = &arrived {
            self.count_response(arrival, response.status().as_u16(), started);
        }
        Ok(response)
    }

    /// Authenticates and authorizes the request before it reads the body, so that a client without rights cannot make the
    /// server keep bodies. `arrived` is the request, as soon as it is known.
    async fn exchange<B>(
        self: &Arc<Self>,
        identity: Option<&Identity>,
        request: Request<B>,
        arrived: &mut Option<Arrival>,
    ) -> Result<Response<Body>, Disconnected>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let arrival = arrived.insert(self.arrival(identity, parts));
        let mut reservation = None;
        if arrival.admitted.is_ok() {
            let body = async {
                reservation = Some(self.in_flight.reserve(body.size_hint().upper())?);
                self.read(body).await
            };
            arrival.body = match body.await {
                Ok(bytes) => bytes,
                Err(error) => return Ok(self.reject(arrival, &error)),
            };
        }
        // Until the response is complete, or a watch begins.
        let _reservation = reservation;
        match self.views {
            None => self.pass_faults(arrival).await,
            Some(_) => Box::pin(self.exchange_recorded(arrival)).await,
        }
    }

    /// Handles a request with the faults of the current rules.
    async fn pass_faults(self: &Arc<Self>, arrival: &Arrival) -> Result<Response<Body>, Disconnected> {
        if self.faults.is_idle() || matches!(arrival.route, Route::Faults { .. }) {
            return Ok(self.respond(arrival, None).await);
        }
        Box::pin(self.handle_with_faults(arrival)).await
    }

    /// Reads a body.
    ///
    /// # Errors
    /// 413 above the limit, 504 if the client is too slow, 400 if it breaks off.
    async fn read<B>(&self, body: B) -> Result<Bytes, ApiError>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let collected = Limited::new(body, MAX_BODY).collect();
        let clock = self.registry.clock();
        let collected = if clock.is_simulated() {
            collected.await
        } else {
            tokio::select! {
                biased;
                collected = collected => collected,
                () = clock.sleep(body::TIME_LIMIT) => return Err(body::too_slow()),
            }
        };
        match collected {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(body::too_large()),
            Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
        }
    }

    /// The request without its body.
    fn arrival(&self, identity: Option<&Identity>, parts: Parts) -> Arrival {
        let path = parts.uri.path();
        let segments = path::segments(path);
        let mut segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let mut query = Query::parse(parts.uri.query().unwrap_or_default());
        let mut watch = query.flag("watch");
        if let Some((list, name)) = path::watched_list(&segments).filter(|_| parts.method == Method::GET) {
            segments = list;
            watch = true;
            query.select_name(name);
        }
        let route = Route::of(&segments);
        // An invalid selector requires no name; the registry rejects it.
        let terms = query.get("fieldSelector").map(field_selector::parse);
        let terms = terms.and_then(Result::ok).unwrap_or_default();
        let name = field_selector::exact_name(&terms);
        let action = Action::of_request(parts.method.as_str(), path, &segments, watch, name);
        let verb = match &route {
            Route::Resource(target) => objects::verb(&parts.method, target, watch),
            _ => "get",
        };
        let pretty = is_pretty(&query, &parts.headers);
        // A Status has a protobuf form, for custom resources too.
        let offer = match route {
            Route::Resource(_) => Offer::BuiltIn,
            _ => Offer::Discovery,
        };
        let negotiated = negotiate::negotiate(accept(&parts.headers), offer);
        let encoding = negotiated.map_or(Encoding::Json, |(_, encoding)| encoding);
        let caller = self
            .caller(identity, &parts.headers)
            .and_then(|caller| self.effective_identity(caller, &parts.headers, &action));
        let client = match &caller {
            Ok(caller) => caller.user.clone(),
            Err(_) => identity.map_or(ANONYMOUS, |identity| identity.user.as_str()).to_owned(),
        };
        // Decided once: roles can change while the request waits.
        let admitted = caller.and_then(|caller| {
            self.authorize(&caller, &route, &action)?;
            Ok(caller)
        });
        Arrival {
            parts,
            body: Bytes::new(),
            route,
            query,
            action,
            verb,
            pretty,
            encoding,
            admitted,
            client,
        }
    }

    /// The forms that the target of a request has.
    fn offer(&self, route: &Route) -> Offer {
        let Route::Resource(target) = route else {
            return Offer::Discovery;
        };
        let catalog = self.registry.catalog();
        let entry = catalog.find(&target.group, &target.version, &target.plural);
        let in_protobuf = entry.is_none_or(|entry| match &entry.resource.shape {
            Shape::BuiltIn(name) => crate::types::is_known(name),
            Shape::Custom(_) => false,
        });
        if in_protobuf { Offer::BuiltIn } else { Offer::Objects }
    }

    /// Computes the response.
    async fn respond(self: &Arc<Self>, arrival: &Arrival, stale: Option<u64>) -> Response<Body> {
        let work = async {
            match self.result(arrival, stale).await {
                Ok(mut response) => {
                    self.finish(arrival, &mut response);
                    response
                }
                Err(error) => self.reject(arrival, &error),
            }
        };
        // Reads ignore the body, and can wait for a revision.
        let is_read = matches!(arrival.verb, "get" | "list" | "watch");
        let media_type = body::media_type(&arrival.parts.headers);
        if self.registry.clock().is_simulated() || is_read || !is_heavy(media_type, arrival.body.len()) {
            return work.await;
        }
        let waits_for_others =
            self.admission.has_webhooks(self.registry.store()) || self.is_converted_by_webhook(&arrival.route);
        self.heavy.perform(work, waits_for_others).await
    }

    /// Whether a webhook converts the objects of the target.
    fn is_converted_by_webhook(&self, route: &Route) -> bool {
        let Route::Resource(target) = route else {
            return false;
        };
        let catalog = self.registry.catalog();
        let entry = catalog.find(&target.group, &target.version, &target.plural);
        let versions = entry.and_then(|entry| entry.resource.versions.as_ref());
        versions.is_some_and(|versions| versions.has_webhook())
    }

    /// Responds with an error.
    fn reject(&self, arrival: &Arrival, error: &ApiError) -> Response<Body> {
        let mut response = error_response(error, arrival.pretty, arrival.encoding);
        self.finish(arrival, &mut response);
        response
    }

    async fn result(self: &Arc<Self>, arrival: &Arrival, stale: Option<u64>) -> Result<Response<Body>, ApiError> {
        let caller = arrival.admitted.as_ref().map_err(Clone::clone)?;
        if let Some(registration) = self.registration(arrival) {
            return Ok(Box::pin(self.forward(arrival, caller, &registration)).await);
        }
        let headers = &arrival.parts.headers;
        let presentation = presentation(arrival, self.offer(&arrival.route))?;
        let exchange = Exchange {
            server: self,
            method: &arrival.parts.method,
            path: arrival.parts.uri.path(),
            caller,
            arrival,
            headers,
            body: &arrival.body,
            query: &arrival.query,
            presentation,
            now: self.registry.clock().now(),
            stale,
        };
        exchange.answer(&arrival.route, arrival.verb).await
    }

    /// Adds the common headers to a response and reports it to the observer.
    fn finish(&self, arrival: &Arrival, response: &mut Response<Body>) {
        compress::compress(&arrival.parts.headers, response);
        self.add_headers(&arrival.parts.headers, response.headers_mut());
        if let Some(observer) = &self.observer {
            let uri = &arrival.parts.uri;
            observer.request(&RequestRecord {
                client: &arrival.client,
                action: &arrival.action,
                verb: arrival.verb,
                path: uri.path_and_query().map_or("/", |path| path.as_str()),
                code: response.status().as_u16(),
                revision: self.registry.store().revision(),
            });
        }
    }

    fn add_headers(&self, request: &HeaderMap, response: &mut HeaderMap) {
        let known = || response.get(&AUDIT_ID).or_else(|| request.get(&AUDIT_ID)).cloned();
        if let Some(id) = known().or_else(|| HeaderValue::from_str(&self.audit_id()).ok()) {
            response.insert(AUDIT_ID, id);
        }
        if !response.contains_key(CACHE_CONTROL) {
            response.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        }
    }
}

impl Arrival {
    /// The user agent; empty if absent.
    fn agent(&self) -> &str {
        agent(&self.parts.headers)
    }
}

impl Exchange<'_> {
    /// The options of a write.
    fn write_options(&self, verb: query::WriteVerb) -> Result<WriteOptions, ApiError> {
        self.query.write(verb, agent(self.headers))
    }

    async fn answer(&self, route: &Route, verb: &str) -> Result<Response<Body>, ApiError> {
        match route {
            Route::Resource(target) => {
                let mut response = objects::serve(self, target, verb).await?;
                deprecation::warn(&self.server.registry.catalog(), target, &mut response);
                Ok(response)
            }
            Route::Faults { name } => admin::serve(self, name.as_deref()),
            Route::Unknown => Ok(page_not_found()),
            _ => documents::serve(self, route, &self.server.registry.catalog()),
        }
    }
}

fn presentation(arrival: &Arrival, offer: Offer) -> Result<Presentation, ApiError> {
    let (form, encoding) = match arrival.route {
        Route::Resource(_) => negotiate::negotiate(accept(&arrival.parts.headers), offer)?,
        _ => (Form::Plain, Encoding::Json),
    };
    let include = match arrival.query.get("includeObject") {
        Some("None") => Include::None,
        Some("Object") => Include::Object,
        Some(other) if other != "Metadata" && matches!(form, Form::Table(_)) => {
            let why = format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            );
            return Err(ApiError::bad_request(why));
        }
        _ => Include::Metadata,
    };
    Ok(Presentation {
        form,
        encoding,
        pretty: arrival.pretty,
        include,
    })
}

/// Responses to interactive clients are indented.
fn is_pretty(query: &Query, headers: &HeaderMap) -> bool {
    if query.get("pretty").is_some() {
        return query.flag("pretty");
    }
    ["curl", "Wget", "Mozilla"]
        .iter()
        .any(|browser| agent(headers).starts_with(browser))
}

fn agent(headers: &HeaderMap) -> &str {
    headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn accept(headers: &HeaderMap) -> &str {
    // What is not text accepts no media type.
    headers
        .get(ACCEPT)
        .map_or("", |value| value.to_str().unwrap_or("invalid"))
}

fn no_such_path() -> ApiError {
    ApiError {
        details: Some(serde_json::json!({})),
        ..ApiError::new(404, "NotFound", "the server could not find the requested resource")
    }
}

fn method_not_allowed() -> ApiError {
    ApiError {
        details: Some(serde_json::json!({})),
        ..ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }
}

/// The response of upstream's router for an unknown path.
fn page_not_found() -> Response<Body> {
    text_response(404, "404 page not found\n")
}

fn json_response(code: u16, bytes: Bytes) -> Response<Body> {
    with_type(code, "application/json", Body::whole(bytes))
}

/// A response with an object, whose encoding its first bytes show.
fn encoded_response(code: u16, bytes: Bytes) -> Response<Body> {
    let media_type = match bytes.starts_with(crate::protobuf::MAGIC) {
        true => crate::protobuf::response::MEDIA_TYPE,
        false => "application/json",
    };
    with_type(code, media_type, Body::whole(bytes))
}

/// The response of a watch.
fn watch_response(encoding: Encoding, body: Body) -> Response<Body> {
    let media_type = match encoding {
        Encoding::Json => "application/json",
        Encoding::Protobuf => crate::protobuf::response::STREAM,
    };
    with_type(200, media_type, body)
}

fn text_response(code: u16, text: &str) -> Response<Body> {
    with_type(code, "text/plain; charset=utf-8", Body::whole(text.to_owned()))
}

fn with_type(code: u16, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn error_response(error: &ApiError, pretty: bool, encoding: Encoding) -> Response<Body> {
    let presentation = Presentation {
        form: Form::Plain,
        encoding,
        pretty,
        include: Include::Metadata,
    };
    let mut response = encoded_response(error.code, presentation.value(&error.to_value()));
    let headers = response.headers_mut();
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    let wait = error
        .details
        .as_ref()
        .and_then(|details| details.get("retryAfterSeconds"));
    if let Some(Ok(value)) = wait.map(|seconds| HeaderValue::from_str(&seconds.to_string())) {
        headers.insert(http::header::RETRY_AFTER, value);
    }
    response
}
