//! `/metrics`, `/healthz` and `/readyz`.

use std::net::SocketAddr;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use hyper_util::service::TowerToHyperService;
use serving::probes;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Error, Metrics};

/// Binds the address; requests are served by [`serve`].
///
/// # Errors
/// If the address cannot be bound.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| Error::Listen {
        address: address.to_string(),
        reason: error.to_string(),
    })
}

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// `/healthz`, `/readyz` and `/metrics`.
    All,
    /// `/healthz` and `/readyz`.
    Probes,
    /// `/metrics`.
    Metrics,
}

/// Serves requests until `cancel`.
pub async fn serve(listener: TcpListener, pages: Pages, metrics: Metrics, cancel: CancellationToken) {
    let router = match pages {
        Pages::All => probe_pages(&metrics, &cancel).merge(metrics_page(metrics)),
        Pages::Probes => probe_pages(&metrics, &cancel),
        Pages::Metrics => metrics_page(metrics),
    };
    probes::serve(listener, TowerToHyperService::new(router), cancel).await;
}

fn probe_pages(metrics: &Metrics, cancel: &CancellationToken) -> Router {
    let readiness = metrics.readiness().clone();
    let ready = move || async move {
        let activity = readiness.get();
        let status = match activity.is_ready() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, activity.describe())
    };
    let stopping = cancel.clone();
    Router::new()
        .route("/healthz", get(move || async move { health(&stopping) }))
        .route("/readyz", get(ready))
}

fn metrics_page(metrics: Metrics) -> Router {
    let page = move || async move { ([(CONTENT_TYPE, serving::OPEN_METRICS)], metrics.text()) };
    Router::new().route("/metrics", get(page))
}

/// The health in upstream's format. During a stop, requests on open connections receive `Unhealthy`.
fn health(cancel: &CancellationToken) -> (StatusCode, &'static str) {
    if cancel.is_cancelled() {
        (StatusCode::INTERNAL_SERVER_ERROR, "Unhealthy")
    } else {
        (StatusCode::OK, "OK")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::Activity;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn health_and_metrics_are_served_until_cancellation() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cancel, metrics) = (CancellationToken::new(), Metrics::new());
        let story = async {
            let health = get(address, "/healthz").await;
            assert!(health.starts_with("HTTP/1.1 200") && health.ends_with("OK"), "{health}");
            assert!(get(address, "/metrics").await.contains("mcm_machine_items_total 0"));
            let ready = get(address, "/readyz").await;
            assert!(
                ready.starts_with("HTTP/1.1 503") && ready.contains("starting"),
                "{ready}"
            );
            metrics.readiness().set(Activity::Standby);
            assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
            assert!(get(address, "/elsewhere").await.starts_with("HTTP/1.1 404"));
            cancel.cancel();
        };
        tokio::join!(serve(listener, Pages::All, metrics.clone(), cancel.clone()), story);
    }

    #[rstest]
    #[case::probes(Pages::Probes, [true, true, false])]
    #[case::metrics(Pages::Metrics, [false, false, true])]
    #[tokio::test]
    async fn metrics_can_have_a_separate_address(#[case] pages: Pages, #[case] served: [bool; 3]) {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let story = async {
            for (path, served) in ["/healthz", "/readyz", "/metrics"].into_iter().zip(served) {
                let found = !get(address, path).await.starts_with("HTTP/1.1 404");
                assert_eq!(found, served, "{path}");
            }
            cancel.cancel();
        };
        tokio::join!(serve(listener, pages, Metrics::new(), cancel.clone()), story);
    }

    #[tokio::test]
    async fn a_stopping_process_is_unhealthy() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let story = async {
            let mut early = TcpStream::connect(address).await.unwrap();
            early.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").await.unwrap();
            // Connections are accepted in order: the early one is open once this one received a response.
            assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
            cancel.cancel();
            early.write_all(b"Connection: close\r\n\r\n").await.unwrap();
            let mut response = String::new();
            early.read_to_string(&mut response).await.unwrap();
            assert!(
                response.starts_with("HTTP/1.1 500") && response.ends_with("Unhealthy"),
                "{response}"
            );
        };
        tokio::join!(serve(listener, Pages::All, Metrics::new(), cancel.clone()), story);
    }

    #[tokio::test]
    async fn a_port_in_use_is_reported_in_one_line() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let error = bind(address).await.unwrap_err().to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("in use") && !error.contains('\n'),
            "{error}"
        );
    }
}
