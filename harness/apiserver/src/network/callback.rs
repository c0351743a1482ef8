//! Calls of programs outside the server over HTTPS, for webhooks.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use super::connection::{Connection, Peer, Place, Tls, Trust};

/// The largest response in bytes.
const MAX_RESPONSE: usize = 16 * 1024 * 1024;

/// A request to a program outside the server.
#[derive(Debug)]
pub(crate) struct Callback {
    /// With scheme `https`, without query.
    pub(crate) url: String,
    /// Connect to this place instead of the host in the URL.
    pub(crate) place: Option<Place>,
    /// Certificates in PEM of which the program's must have one; `None`: those of the system.
    pub(crate) authorities: Option<Vec<u8>>,
    /// After this time there is no answer.
    pub(crate) timeout: Duration,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// Why a program did not answer a request. The texts are like those of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoAnswer(String);

impl NoAnswer {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Sends requests on a separate thread, so that all threads that serve requests can wait for the responses.
#[derive(Debug, Default)]
pub(crate) struct Caller(Mutex<Option<Runtime>>);

impl Caller {
    /// Sends requests at the same time, and blocks the thread until all have an outcome.
    pub(crate) fn send(&self, callbacks: Vec<Callback>) -> Vec<Result<Vec<u8>, NoAnswer>> {
        let count = callbacks.len();
        let failed = |why: String| vec![Err(NoAnswer(why)); count];
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => return failed(error.to_string()),
        };
        let (sender, receiver) = mpsc::channel();
        runtime.spawn(async move {
            // The receiver waits for it.
            let _ = sender.send(join_all(callbacks.into_iter().map(send)).await);
        });
        let outcomes = tokio::task::block_in_place(|| receiver.recv());
        outcomes.unwrap_or_else(|_| failed("the server ends".to_owned()))
    }

    /// The runtime, which the first call starts.
    fn runtime(&self) -> io::Result<Handle> {
        let mut started = self.0.lock();
        if let Some(runtime) = started.as_ref() {
            return Ok(runtime.handle().clone());
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("webhooks")
            .enable_all()
            .build()?;
        Ok(started.insert(runtime).handle().clone())
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // A task can drop the server, and must not wait.
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends a request; returns the body of the response.
///
/// # Errors
/// The reason why there is no response with code 200.
async fn send(callback: Callback) -> Result<Vec<u8>, NoAnswer> {
    let url = format!("{}?timeout={}s", callback.url, callback.timeout.as_secs());
    let timeout = callback.timeout;
    let outcome = tokio::time::timeout(timeout, exchange(callback, &url)).await;
    match outcome {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(Failure::Response(why))) => Err(NoAnswer(why)),
        Ok(Err(Failure::Connection(why))) => Err(NoAnswer(format!("Post {url:?}: {why}"))),
        Err(_) => Err(NoAnswer(format!("Post {url:?}: context deadline exceeded"))),
    }
}

enum Failure {
    /// The program was not reached.
    Connection(String),
    /// The program did not answer as expected.
    Response(String),
}

async fn exchange(callback: Callback, url: &str) -> Result<Vec<u8>, Failure> {
    let connection = |error: &dyn std::fmt::Display| Failure::Connection(error.to_string());
    let uri: Uri = url.parse().map_err(|error| connection(&error))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let peer = Peer {
        place: callback.place.unwrap_or_else(|| Place {
            host: host.clone(),
            port: uri.port_u16().unwrap_or(443),
        }),
        tls: Some(Tls {
            name: host,
            trust: callback.authorities.map_or(Trust::System, Trust::Authorities),
            client: None,
        }),
    };
    let mut opened = Connection::open(&peer).await.map_err(|error| connection(&error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(callback.body)))
        .map_err(|error| connection(&error))?;
    let response = opened.send(request).await.map_err(|error| connection(&error))?;
    let code = response.status();
    let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
    let body = body.map_err(|error| connection(&error))?.to_bytes();
    if code.as_u16() == 200 {
        return Ok(body.to_vec());
    }
    let text = String::from_utf8_lossy(body.get(..body.len().min(2048)).unwrap_or_default()).into_owned();
    Err(Failure::Response(refusal(code.as_u16(), &text)))
}

/// What client-go says about a response with an error code.
fn refusal(code: u16, text: &str) -> String {
    let words = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 406 | 415 if !text.is_empty() => text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            return format!("an error on the server ({text:?}) has prevented the request from succeeding");
        }
        code => {
            return format!("the server responded with the status code {code} but did not return more information");
        }
    };
    words.to_owned()
}
