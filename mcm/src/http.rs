//! `/metrics` and `/healthz`.

use std::net::SocketAddr;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Error, Metrics};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Takes the address; nothing is answered before [`serve`].
///
/// # Errors
/// When the address is not to be had.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| Error::Listen {
        address: address.to_string(),
        reason: error.to_string(),
    })
}

/// Answers until `cancel`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, metrics: Metrics, cancel: CancellationToken) -> std::io::Result<()> {
    let router = Router::new().route("/healthz", get(|| async { "OK" })).route(
        "/metrics",
        get(move || async move { ([(CONTENT_TYPE, OPEN_METRICS)], metrics.text()) }),
    );
    axum::serve(listener, router)
        .with_graceful_shutdown(cancel.cancelled_owned())
        .await
}
