//! An HTTP/1 server for the small responses of `/healthz`, `/readyz` and `/metrics`, with limits for hostile clients.

use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connections::Usage;
use crate::http1::accept;

/// After this time a connection ends after its request.
const LIFETIME: Duration = Duration::from_mins(1);

/// Answers requests with `service` until `cancel`, then waits for the responses in progress.
pub async fn serve<S, B>(listener: TcpListener, service: S, cancel: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let counted = move |usage: Usage| {
        let service = service.clone();
        service_fn(move |request| {
            let response = service.call(request);
            let in_use = usage.begin();
            async move {
                let response = response.await;
                // A client that reads no response does not keep its connection.
                drop(in_use);
                response
            }
        })
    };
    accept(listener, counted, Some(LIFETIME), cancel).await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http_body_util::Full;
    use hyper::body::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::http1::{CONNECTIONS, HEADER_SIZE};

    type Answer = Result<Response<Full<Bytes>>, std::convert::Infallible>;

    /// Serves a response of that size. Returns the address and a token that ends the server.
    async fn start(size: usize) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let service = service_fn(move |_| async move { Answer::Ok(Response::new(vec![b'x'; size].into())) });
        tokio::spawn(serve(listener, service, cancel.clone()));
        (address, cancel)
    }

    async fn get(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn clients_that_send_no_request_do_not_lock_others_out() {
        let (address, _cancel) = start(2).await;
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(get(address).await.ends_with("xx"));
        let mut closed = silent.swap_remove(0);
        assert_eq!(closed.read(&mut [0]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn clients_that_read_no_response_do_not_lock_others_out() {
        let (address, _cancel) = start(4_000_000).await;
        let mut slow = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            slow.push(stream);
        }
        assert!(get(address).await.len() > 4_000_000);
    }

    #[tokio::test]
    async fn a_header_that_is_too_large_is_refused() {
        let (address, _cancel) = start(2).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
            "x".repeat(2 * HEADER_SIZE)
        );
        // The server may close the connection before it has read all.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        assert!(!response.starts_with(b"HTTP/1.1 200"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_that_is_never_complete_ends_the_connection() {
        let (address, _cancel) = start(2).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert_eq!(response, "");
    }
}
