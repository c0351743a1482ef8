//! The first call of a program to an API server.

use std::time::Duration;

use clock::Clock;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;

use crate::error::{brief, is_too_many_requests};

/// How long [`reach`] waits: a pod of a new node can start before the node routes the address of the API server.
pub const REACH_LIMIT: Duration = Duration::from_secs(20);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Why an API server could not be reached.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReachError {
    /// The server responds, but refuses this client. A retry would not help.
    #[error("refuses the request: {0}")]
    Refused(String),
    /// No response within [`REACH_LIMIT`]. Contains the last error.
    #[error("does not answer within {limit} s: {0}", limit = REACH_LIMIT.as_secs())]
    NoAnswer(String),
}

/// The version of the API server, as soon as it responds. Retries failed connections and overloaded servers.
///
/// # Errors
/// [`ReachError::Refused`] at once, otherwise [`ReachError::NoAnswer`] after [`REACH_LIMIT`].
pub async fn reach(client: &Client, clock: &Clock) -> Result<Info, ReachError> {
    let mut reason = String::from("no response");
    let attempts = async {
        loop {
            match client.apiserver_version().await {
                Ok(version) => return Ok(version),
                Err(error) if is_refusal(&error) => return Err(ReachError::Refused(brief(&error))),
                Err(error) => reason = brief(&error),
            }
            clock.sleep(PAUSE).await;
        }
    };
    let answer = tokio::time::timeout(REACH_LIMIT, attempts).await;
    answer.unwrap_or(Err(ReachError::NoAnswer(reason)))
}

/// Whether the server rejects this client or request, whenever it is sent.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code)) && !is_too_many_requests(error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response, StatusCode};
    use jiff::Timestamp;
    use kube::client::Body;

    use super::*;

    /// What a client reports when the first `failures` responses have `status`, and how many requests it sends.
    async fn reached(failures: usize, status: StatusCode) -> (Result<String, ReachError>, usize) {
        let sent = std::sync::Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let server = tower::service_fn(move |_: Request<Body>| {
            let failing = count.fetch_add(1, Ordering::Relaxed) < failures;
            async move {
                let (status, body) = if failing {
                    let body = format!(r#"{{"kind":"Status","message":"not now","code":{}}}"#, status.as_u16());
                    (status, body)
                } else {
                    let version = Info {
                        git_version: "v1.36.3".to_owned(),
                        ..Info::default()
                    };
                    (StatusCode::OK, serde_json::to_string(&version).unwrap())
                };
                Response::builder().status(status).body(Body::from(body.into_bytes()))
            }
        });
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        let answer = reach(&Client::new(server, "default"), &clock).await;
        (answer.map(|info| info.git_version), sent.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_starts_late_is_reached() {
        for status in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS] {
            assert_eq!(reached(3, status).await, (Ok("v1.36.3".to_owned()), 4), "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_responds_is_an_error() {
        let (answer, sent) = reached(usize::MAX, StatusCode::SERVICE_UNAVAILABLE).await;
        let error = answer.unwrap_err();
        assert!(matches!(error, ReachError::NoAnswer(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("does not answer within 20 s: ") && text.contains("not now"),
            "{text}"
        );
        assert_eq!(sent, 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_retried() {
        let (answer, sent) = reached(usize::MAX, StatusCode::UNAUTHORIZED).await;
        assert!(matches!(answer, Err(ReachError::Refused(_))), "{answer:?}");
        assert_eq!(sent, 1);
    }
}
