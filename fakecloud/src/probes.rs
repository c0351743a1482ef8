//! `/healthz`, `/readyz` and `/metrics` of the process, over plain HTTP for kubelets and scrapers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether gRPC calls are answered. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Sets whether calls are answered.
    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    fn answer(&self) -> (StatusCode, &'static str) {
        if self.0.load(Ordering::Relaxed) {
            (StatusCode::OK, "OK")
        } else {
            let reason = "gRPC is not served: the process starts, waits for the API server, or ends";
            (StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }
}

/// Binds the address.
///
/// # Errors
/// The address is not available.
pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}: choose another --health-address"))
}

/// Answers until `token` is cancelled.
pub(crate) async fn serve(listener: TcpListener, readiness: Readiness, metrics: Metrics, token: CancellationToken) {
    let router = Router::new()
        .route("/healthz", get(|| async { "OK" }))
        .route("/readyz", get(move || async move { readiness.answer() }))
        .route(
            "/metrics",
            get(move || async move { ([(CONTENT_TYPE, OPEN_METRICS)], metrics.text()) }),
        );
    serving::probes::serve(listener, TowerToHyperService::new(router), token).await;
}
