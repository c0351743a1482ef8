//! Sends hostile requests over HTTPS and checks the responses.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use serde_json::Value;

use super::classes::{Check, Hostile, User};
use crate::is_expected_error;
use crate::selectors::names_in;

/// How long a response may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a body is read: a watch does not end.
const BODY: Duration = Duration::from_secs(2);
/// The number of bytes of a body that are read.
const MAX_BODY: usize = 4 << 20;

/// A client with the administrator's certificate, and one without credentials.
pub(super) struct Client {
    admin: kube::Client,
    anonymous: kube::Client,
    in_flight: InFlight,
}

/// Descriptions of the requests that wait for a response. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<Vec<String>>>);

impl InFlight {
    fn begin(&self, what: &str) {
        self.0.lock().push(what.to_owned());
    }

    fn end(&self, what: &str) {
        let mut all = self.0.lock();
        if let Some(at) = all.iter().position(|one| one == what) {
            all.swap_remove(at);
        }
    }

    /// The descriptions.
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// What was sent and answered.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// The number of requests.
    pub inputs: u64,
    /// Responses 2xx.
    pub accepted: u64,
    /// Responses 4xx but 429.
    pub refused: u64,
    /// Responses 429, 503 and 504.
    pub busy: u64,
    /// Descriptions of violated properties.
    pub violations: Vec<String>,
}

impl Count {
    /// Both together.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.inputs += other.inputs;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.busy += other.busy;
        self.violations.extend(other.violations);
        self
    }
}

/// A response.
struct Answer {
    code: u16,
    body: Vec<u8>,
}

impl Client {
    pub(super) async fn new(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        // Otherwise a refused request is repeated for minutes.
        config.default_retry = false;
        let admin = kube::Client::try_from(config.clone())?;
        config.auth_info = Default::default();
        let anonymous = kube::Client::try_from(config)?;
        Ok(Self {
            admin,
            anonymous,
            in_flight: InFlight::default(),
        })
    }

    /// The requests that wait for a response.
    pub(super) fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }

    /// Creates an object that the requests of a class refer to.
    pub(super) async fn prepare(&self, prepared: Hostile) -> anyhow::Result<()> {
        let what = prepared.what();
        let answer = self.send(prepared).await.map_err(anyhow::Error::msg)?;
        anyhow::ensure!(answer.code < 300, "{what}: {} {}", answer.code, text(&answer.body));
        Ok(())
    }

    /// Sends the requests of a round one after another.
    pub(super) async fn send_all(&self, round: u64, requests: Vec<Hostile>) -> Count {
        let mut count = Count::default();
        for request in requests {
            let (what, check) = (request.what(), request.check);
            count.inputs += 1;
            self.in_flight.begin(&what);
            let sent = self.send(request).await;
            self.in_flight.end(&what);
            let violation = match sent {
                Ok(answer) => {
                    match answer.code {
                        429 | 503 | 504 => count.busy += 1,
                        400..500 => count.refused += 1,
                        _ => count.accepted += 1,
                    }
                    violation(check, &answer)
                }
                Err(error) => Some(error),
            };
            count
                .violations
                .extend(violation.map(|text| format!("round {round}: {what}: {text}")));
        }
        count
    }

    /// Whether the server answers the path with 200.
    pub(super) async fn is_served(&self, path: &str) -> Result<(), String> {
        let answer = self.send(Hostile::get(path)).await?;
        match answer.code {
            200 => Ok(()),
            code => Err(format!("GET {path}: {code} {}", text(&answer.body))),
        }
    }

    /// A description of each panic that the server's metrics report.
    pub(super) async fn panics(&self) -> anyhow::Result<Vec<String>> {
        let answer = self.send(Hostile::get("/metrics")).await.map_err(anyhow::Error::msg)?;
        let metrics = String::from_utf8(answer.body).context("the metrics are not text")?;
        let is_panic = |line: &&str| {
            let counter = line.starts_with("drydock_request_panics") || line.starts_with("drydock_controller_panics");
            counter && !line.ends_with(" 0")
        };
        Ok(metrics
            .lines()
            .filter(is_panic)
            .map(|line| format!("panics: {line}"))
            .collect())
    }

    async fn send(&self, hostile: Hostile) -> Result<Answer, String> {
        let client = match hostile.user {
            User::Admin | User::Limited => &self.admin,
            User::Anonymous => &self.anonymous,
        };
        let (mut parts, body) = hostile.request.into_parts();
        if hostile.user == User::Limited {
            let limited = http::HeaderValue::from_static("limited");
            parts.headers.insert("impersonate-user", limited);
        }
        let request = Request::from_parts(parts, Body::from(body));
        let response = tokio::time::timeout(LIMIT, client.send(request)).await;
        let response = response.map_err(|_| format!("no response within {} s", LIMIT.as_secs()))?;
        let (parts, mut body) = response
            .map_err(|error| format!("no response: {error:?}"))?
            .into_parts();
        let mut bytes = Vec::new();
        let read = async {
            while bytes.len() < MAX_BODY
                && let Some(Ok(frame)) = body.frame().await
            {
                bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            }
        };
        tokio::time::timeout(BODY, read).await.ok();
        Ok(Answer {
            code: parts.status.as_u16(),
            body: bytes,
        })
    }
}

fn violation(check: Check, answer: &Answer) -> Option<String> {
    let wrong = match check {
        _ if answer.code >= 500 && ![503, 504].contains(&answer.code) => !is_expected_error(&json(&answer.body)),
        Check::Served => false,
        Check::Refused => answer.code < 400,
        Check::OnlyMine => names_in(&answer.body).iter().any(|name| name != "mine"),
    };
    wrong.then(|| format!("{check:?} -> {} {}", answer.code, text(&answer.body)))
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).trim_end().chars().take(300).collect()
}
