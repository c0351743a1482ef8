//! Programs of a case that the server calls: webhooks on loopback.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::tls::acceptor;

/// The body of a response, or its code and text.
pub enum Answer {
    Body(Value),
    Text(u16, String),
}

/// The answer to a review at a path.
pub type Answers = Arc<dyn Fn(&str, &Value) -> Answer + Send + Sync>;

/// A program with webhooks.
pub struct Program {
    pub url: String,
    /// For `caBundle`.
    pub authority: String,
    /// The paths and reviews of its calls.
    pub calls: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Program {
    /// Starts a program. It does not answer at the path `slow`.
    pub async fn start(answers: Answers) -> Self {
        let (acceptor, authority) = acceptor("127.0.0.1");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let calls: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        tokio::spawn(serve(listener, acceptor, answers, Arc::clone(&calls)));
        Self {
            url,
            authority: STANDARD.encode(authority),
            calls,
        }
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answers: Answers,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, calls, answers) = (acceptor.clone(), Arc::clone(&calls), Arc::clone(&answers));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let (calls, answers) = (Arc::clone(&calls), Arc::clone(&answers));
                async move { respond(request, &answers, &calls).await }
            });
            let _ended = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn respond(
    request: Request<hyper::body::Incoming>,
    answers: &Answers,
    calls: &Mutex<Vec<(String, Value)>>,
) -> hyper::Result<Response<Full<Bytes>>> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    calls.lock().push((path.clone(), review.clone()));
    if path == "slow" {
        std::future::pending::<()>().await;
    }
    let mut response = Response::new(Full::default());
    *response.body_mut() = match answers(&path, &review) {
        Answer::Body(body) => Full::from(body.to_string()),
        Answer::Text(code, text) => {
            *response.status_mut() = code.try_into().unwrap();
            Full::from(text)
        }
    };
    Ok(response)
}
