//! The HTTP server of the page.
//!
//! | request | answer |
//! |---|---|
//! | `GET /?token=…` | a cookie, and a redirect to the page |
//! | `GET /`, `GET /assets/…` | the page and its modules |
//! | `GET /api/state` | everything that the topology shows, and what buttons there are |
//! | `GET /api/events` | changes as server-sent events; `Last-Event-ID` resumes |
//! | `GET /api/record` | the timeline as a record |
//! | `GET /api/details?id=…` | owners, conditions and events of one entity |
//! | `GET /api/plan` | the session as a plan |
//! | `POST /api/preview`, `POST /api/faults` | what a fault would do, and the order to do it |
//! | `POST /api/faults/end` | ends a fault that was injected |
//! | `POST /api/play` | pauses a simulated world, or lets it go on |

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clock::Clock;
use futures::stream::{self, StreamExt};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::active::ActiveFault;
use crate::executor::Executor;
use crate::faults::{self, FaultError, FaultPlan, FaultRequest, FaultStep};
use crate::feed::Changes;
use crate::guard::{Guard, Refusal, Token};
use crate::playback::{Command, CommandError, CommandRequest, Status};
use crate::player::Player;
pub use crate::readers::Readers;
use crate::session::PlanError;
use crate::world::{LiveWorld, Shared};

/// Changes of this time are one event.
const COALESCE: Duration = Duration::from_millis(100);
/// After this time without a change, a comment shows that the connection works.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The largest body of a request.
const LARGEST_BODY: usize = 64 * 1024;
/// What the page may load and do.
const POLICY: &str =
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'";

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<Body>;

/// The parts of a dashboard.
pub struct Dashboard {
    clock: Clock,
    world: Shared,
    executor: Arc<dyn Executor>,
    guard: Guard,
    player: Option<Player>,
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    readers: Readers,
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dashboard")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Why a dashboard cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is not available.
    #[error("the dashboard cannot listen on 127.0.0.1:{port}: {source}; choose another --dashboard-port")]
    Bind {
        /// The port.
        port: u16,
        /// The cause.
        source: std::io::Error,
    },
    /// There is no randomness.
    #[error("the dashboard has no secret: {0}")]
    Token(getrandom::Error),
}

impl Dashboard {
    /// Listens on loopback; port 0: any free one. `buttons`: faults may be injected.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn bind(
        port: u16,
        buttons: bool,
        world: Shared,
        executor: Arc<dyn Executor>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let bind = |source| StartError::Bind { port, source };
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let token = Token::random().map_err(StartError::Token)?;
        Ok(Self {
            clock,
            world,
            executor,
            guard: Guard::new(token.clone(), address.port(), buttons),
            player: None,
            listener,
            address,
            token,
            readers: Readers::default(),
        })
    }

    /// Lets the page pace a simulated world, and shows the timeline and the plan of its run.
    #[must_use]
    pub fn playing(self, player: Player) -> Self {
        Self {
            player: Some(player),
            ..self
        }
    }

    /// The URL with the secret.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token.as_str())
    }

    /// The open pages.
    pub fn readers(&self) -> Readers {
        self.readers.clone()
    }

    /// Answers requests until `cancel`.
    pub async fn serve(self, cancel: CancellationToken) {
        let server = Arc::new(Server {
            clock: self.clock,
            world: self.world,
            executor: self.executor,
            guard: self.guard,
            player: self.player,
            readers: self.readers,
            cancel: cancel.clone(),
        });
        let service = service_fn(move |request| {
            let server = Arc::clone(&server);
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        serving::streams::serve(self.listener, service, cancel).await;
    }
}

/// What one server-sent event contains.
#[derive(Serialize)]
struct Update {
    #[serde(flatten)]
    changes: Changes,
    /// The faults that have begun and not ended.
    active: Vec<ActiveFault>,
    /// Of a world that the page paces.
    #[serde(skip_serializing_if = "Option::is_none")]
    playback: Option<Status>,
}

struct Server {
    clock: Clock,
    world: Shared,
    executor: Arc<dyn Executor>,
    guard: Guard,
    player: Option<Player>,
    readers: Readers,
    cancel: CancellationToken,
}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default();
        let answered = match (&parts.method, parts.uri.path()) {
            (&Method::GET, "/") if value(query, "token").is_some() => self.log_in(&parts.headers, query),
            (&Method::GET, path) => self
                .guard
                .read(&parts.headers)
                .map(|()| self.get(path, query, &parts.headers)),
            (&Method::POST, "/api/preview") => match self.guard.post(&parts.headers) {
                Ok(()) => Ok(self.preview(body).await),
                Err(refusal) => Err(refusal),
            },
            (&Method::POST, "/api/faults") => match self.guard.change(&parts.headers) {
                Ok(()) => Ok(Arc::clone(&self).inject(body).await),
                Err(refusal) => Err(refusal),
            },
            (&Method::POST, "/api/faults/end") => match self.guard.change(&parts.headers) {
                Ok(()) => Ok(Arc::clone(&self).end(body).await),
                Err(refusal) => Err(refusal),
            },
            (&Method::POST, "/api/play") => match self.guard.post(&parts.headers) {
                Ok(()) => Ok(self.play(body).await),
                Err(refusal) => Err(refusal),
            },
            _ => Ok(failure(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET, and POST for faults and for the playback",
            )),
        };
        let mut answer = answered.unwrap_or_else(|refusal: Refusal| failure(refusal.status(), &refusal.to_string()));
        protect(answer.headers_mut());
        answer
    }

    /// Exchanges the secret in the URL for a cookie.
    fn log_in(&self, headers: &HeaderMap, query: &str) -> Result<Answer, Refusal> {
        self.guard.host(headers)?;
        let is_secret = value(query, "token").is_some_and(|token| self.guard.is_secret(token));
        is_secret.then_some(()).ok_or(Refusal::Secret)?;
        let mut answer = full(StatusCode::SEE_OTHER, "text/plain", Bytes::new());
        answer.headers_mut().insert("location", HeaderValue::from_static("/"));
        if let Ok(cookie) = HeaderValue::from_str(&self.guard.cookie()) {
            answer.headers_mut().insert("set-cookie", cookie);
        }
        Ok(answer)
    }

    fn get(&self, path: &str, query: &str, headers: &HeaderMap) -> Answer {
        match path {
            "/" => full(StatusCode::OK, "text/html; charset=utf-8", web::live_page().into()),
            // Browsers request an icon although the page declares none.
            "/favicon.ico" => full(StatusCode::NO_CONTENT, "image/x-icon", Bytes::new()),
            "/api/state" => {
                let playback = self.player.as_ref().map(Player::status);
                let now = self.player.as_ref().map(Player::now);
                let world = self.world.lock();
                json_answer(&json!({
                    "buttons": self.guard.buttons,
                    "faults": world.faults(),
                    "codes": CODES,
                    "active": active_faults(&world, playback.as_ref(), now),
                    "changes": world.after(0),
                    "playback": playback,
                }))
            }
            "/api/events" => self.events(query, headers),
            "/api/play" => failure(StatusCode::METHOD_NOT_ALLOWED, "/api/play is for POST"),
            "/api/record" if let Some(player) = &self.player => json_answer(&player.record()),
            "/api/record" => {
                let timeline = self.world.lock().timeline();
                json_answer(&timeline.record(self.clock.now()))
            }
            "/api/details" => {
                let id = value(query, "id").map(decoded).unwrap_or_default();
                match self.world.lock().details(&id) {
                    Some(details) => json_answer(&details),
                    None => failure(StatusCode::NOT_FOUND, "it does not exist any more"),
                }
            }
            "/api/plan" => match self.plan() {
                Ok(plan) => {
                    let mut answer = full(StatusCode::OK, "application/yaml", plan.into());
                    let name = HeaderValue::from_static("attachment; filename=\"session.yaml\"");
                    answer.headers_mut().insert("content-disposition", name);
                    answer
                }
                Err(error) => failure(StatusCode::CONFLICT, &error.to_string()),
            },
            path => match path.strip_prefix("/assets/").and_then(web::asset) {
                Some(asset) => full(
                    StatusCode::OK,
                    asset.media_type,
                    Bytes::from_static(asset.text.as_bytes()),
                ),
                None => failure(StatusCode::NOT_FOUND, "there is no such page"),
            },
        }
    }

    /// The plan that repeats what happened.
    fn plan(&self) -> Result<String, PlanError> {
        match &self.player {
            Some(player) => Ok(player.plan()),
            None => self.world.lock().plan(),
        }
    }

    /// Sends what changed since the reader's last event. A slow reader misses states in between, not the last one.
    fn events(&self, query: &str, headers: &HeaderMap) -> Answer {
        let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let after = resumed
            .or_else(|| value(query, "after"))
            .and_then(|id| id.parse().ok())
            .unwrap_or(0);
        let page = self.readers.open();
        let (world, cancel, clock) = (Arc::clone(&self.world), self.cancel.clone(), self.clock.clone());
        let changed = world.lock().subscribe();
        let player = self.player.clone();
        let events = stream::unfold((after, changed, true), move |(after, mut changed, is_first)| {
            let (world, cancel, clock) = (Arc::clone(&world), cancel.clone(), clock.clone());
            let player = player.clone();
            // Counts the page as open as long as the stream exists.
            let _ = &page;
            async move {
                if !is_first {
                    let wait = async {
                        let seen = *changed.borrow_and_update();
                        if seen == after && changed.changed().await.is_err() {
                            std::future::pending::<()>().await;
                        }
                        clock.sleep(COALESCE).await;
                    };
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return None,
                        () = wait => {}
                        () = clock.sleep(KEEP_ALIVE) => return Some((": idle\n\n".to_owned(), (after, changed, false))),
                    }
                }
                let playback = player.as_ref().map(Player::status);
                let now = player.as_ref().map(Player::now);
                let (changes, active) = {
                    let world = world.lock();
                    (world.after(after), active_faults(&world, playback.as_ref(), now))
                };
                let number = changes.number;
                let data = serde_json::to_string(&Update {
                    changes,
                    active,
                    playback,
                })
                .unwrap_or_default();
                Some((format!("id: {number}\ndata: {data}\n\n"), (number, changed, false)))
            }
        });
        let start = stream::once(async { "retry: 500\n\n".to_owned() });
        let frames = start
            .chain(events)
            .map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
        let mut answer = Response::new(BodyExt::boxed_unsync(StreamBody::new(frames)));
        answer
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        answer
    }

    /// Paces the world.
    async fn play(&self, body: Incoming) -> Answer {
        let Some(player) = &self.player else {
            let reason = "this world runs on the wall clock; `drydock play` simulates one that can be paused";
            return failure(StatusCode::NOT_FOUND, reason);
        };
        let request: CommandRequest = match read(body, "command").await {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        match Command::of(&request).and_then(|command| player.command(command)) {
            Ok(status) => json_answer(&status),
            Err(error @ CommandError::Ended) => failure(StatusCode::CONFLICT, &error.to_string()),
            Err(error) => failure(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string()),
        }
    }

    async fn preview(&self, body: Incoming) -> Answer {
        let request = match read(body, "fault").await {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        let place = self.player.as_ref().map(Player::place_of_fault).transpose();
        match (self.decide(&request, 0), place) {
            (Ok(plan), Ok(None)) => json_answer(&plan.preview()),
            (Ok(plan), Ok(Some(place))) => json_answer(&plan.preview_at(place.at, place.recorded)),
            (Ok(_), Err(error)) => json_answer(&json!({ "problem": error.to_string() })),
            // That a request is not complete yet is an answer, too.
            (Err(error), _) => json_answer(&json!({ "problem": error.to_string() })),
        }
    }

    /// Decides what a request does in this world.
    fn decide(&self, request: &FaultRequest, number: u64) -> Result<FaultPlan, FaultError> {
        // The decision does not block the watches.
        let fleet = {
            let world = self.world.lock();
            if !world.faults().iter().any(|fault| fault.name == request.fault) {
                return Err(FaultError::Unknown(request.fault.clone()));
            }
            world.fleet()
        };
        faults::decide(request, &fleet, number)
    }

    async fn inject(self: Arc<Self>, body: Incoming) -> Answer {
        let request = match read(body, "fault").await {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        let number = self.next_fault();
        let plan = match self.decide(&request, number) {
            Ok(plan) => Arc::new(plan),
            Err(error) => return failure(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string()),
        };
        if let Some(player) = &self.player {
            return self.inject_in_run(player, number, &plan);
        }
        let preview = plan.preview();
        // Runs in a separate task, because a closed page drops the request, and the fault must still be recorded and ended.
        let (begun, failed) = oneshot::channel();
        tokio::spawn(async move {
            let at = self.clock.now();
            let failed = self.perform(&plan.begin).await;
            if failed.len() < plan.begin.len() {
                self.world.lock().begun(number, at, &plan);
            }
            // The page may be gone.
            let _ = begun.send(failed);
            self.end_later(number, &plan).await;
        });
        match failed.await.as_deref() {
            Ok([]) => json_answer(&preview),
            Ok(failed) => failure(StatusCode::BAD_GATEWAY, &failed.join("; ")),
            Err(_) => failure(StatusCode::INTERNAL_SERVER_ERROR, "the fault was interrupted"),
        }
    }

    /// A number for the names of a fault's rules that no rule of a played plan has.
    fn next_fault(&self) -> u64 {
        let plan = self.player.as_ref().map(Player::plan).unwrap_or_default();
        let mut world = self.world.lock();
        loop {
            let number = world.next_fault();
            if !plan.contains(&faults::rule_name(number)) {
                return number;
            }
        }
    }

    /// Injects a fault into a simulated world: another run with the same history takes the place of the current one.
    fn inject_in_run(&self, player: &Player, number: u64, plan: &Arc<FaultPlan>) -> Answer {
        match player.inject(plan) {
            Ok((place, at)) => {
                self.world.lock().begun(number, at, plan);
                json_answer(&plan.preview_at(place.at, place.recorded))
            }
            Err(error) => failure(StatusCode::CONFLICT, &error.to_string()),
        }
    }

    /// Ends a fault after its time, unless a user has ended it.
    async fn end_later(&self, number: u64, plan: &FaultPlan) {
        let Some(lasts) = plan.lasts else { return };
        tokio::select! {
            () = self.cancel.cancelled() => return,
            () = self.clock.sleep(lasts) => {}
        }
        let ending = self.world.lock().end(number);
        if let Some(plan) = ending {
            self.perform(&plan.end).await;
        }
    }

    /// Ends a fault that a user chose.
    async fn end(self: Arc<Self>, body: Incoming) -> Answer {
        let request: EndRequest = match read(body, "end of a fault").await {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        let missing = || {
            let reason = format!(
                "number: no fault {} is active; it may have ended by itself",
                request.number
            );
            failure(StatusCode::NOT_FOUND, &reason)
        };
        if let Some(player) = &self.player {
            let active = self.world.lock().active_fault(request.number);
            let Some((fault, plan)) = active else { return missing() };
            return match player.end(&plan, fault.until) {
                Ok(()) => {
                    self.world.lock().end(request.number);
                    json_answer(&json!({}))
                }
                Err(error) => failure(StatusCode::CONFLICT, &error.to_string()),
            };
        }
        let ending = self.world.lock().end(request.number);
        let Some(plan) = ending else { return missing() };
        // As a begin, an end is completed although the page may close.
        let performing = tokio::spawn(async move { self.perform(&plan.end).await });
        match performing.await.as_deref() {
            Ok([]) => json_answer(&json!({})),
            Ok(failed) => failure(StatusCode::BAD_GATEWAY, &failed.join("; ")),
            Err(_) => failure(StatusCode::INTERNAL_SERVER_ERROR, "the end was interrupted"),
        }
    }

    /// Performs the steps of a fault. Returns what failed.
    async fn perform(&self, steps: &[FaultStep]) -> Vec<String> {
        let mut failed = Vec::new();
        for step in steps {
            // What the step leads to may be observed before it returns, and must not precede it in the timeline.
            let now = self.clock.now();
            let done = self.executor.perform(step.step.clone(), step.vm.clone()).await;
            let mut world = self.world.lock();
            match done {
                Ok(()) => world.performed(now, [step]),
                Err(error) => {
                    world.failed(now, &step.step, &error.to_string());
                    failed.push(error.to_string());
                }
            }
        }
        failed
    }
}

/// The faults that last. None lasts longer than the run of a simulated world.
fn active_faults(world: &LiveWorld, playback: Option<&Status>, now: Option<Timestamp>) -> Vec<ActiveFault> {
    match playback {
        Some(playback) if playback.end.is_some() => Vec::new(),
        _ => world.active_faults(now),
    }
}

/// A request for the end of a fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndRequest {
    /// The number of the fault.
    number: u64,
}

/// The machine codes of failures.
const CODES: [&str; 16] = [
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Reads a request for something.
async fn read<T: DeserializeOwned>(body: Incoming, what: &str) -> Result<T, Answer> {
    let bytes = Limited::new(body, LARGEST_BODY).collect().await;
    let bytes = bytes
        .map_err(|_| failure(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large"))?
        .to_bytes();
    serde_json::from_slice(&bytes)
        .map_err(|error| failure(StatusCode::BAD_REQUEST, &format!("the request is no {what}: {error}")))
}

/// The undecoded value of a field of a query.
fn value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.find_map(|(found, value)| (found == name).then_some(value))
}

/// A value of a query without its escapes.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let escaped = (byte == b'%').then(|| {
            let mut digits = rest.clone();
            let high = char::from(digits.next()?).to_digit(16)?;
            let low = char::from(digits.next()?).to_digit(16)?;
            rest = digits;
            u8::try_from(high * 16 + low).ok()
        });
        bytes.push(escaped.flatten().unwrap_or(byte));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn full(status: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(BodyExt::boxed_unsync(Full::new(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

fn json_answer(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(text) => full(StatusCode::OK, "application/json", text.into()),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn failure(status: StatusCode, message: &str) -> Answer {
    full(status, "text/plain; charset=utf-8", format!("{message}\n").into())
}

/// Headers of every response.
fn protect(headers: &mut HeaderMap) {
    let all = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
