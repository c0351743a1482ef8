//! An HTTP/1 server for responses that may last as long as the client wants, such as server-sent events.
//!
//! Its clients must be trusted not to keep responses that they do not read: such a response uses one of the connections.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connections::{InUse, Usage};
use crate::http1::accept;

/// Answers requests with `service` until `cancel`, then waits a short time for the responses in progress. A connection is in use
/// until the end of its response.
pub async fn serve<S, B>(listener: TcpListener, service: S, cancel: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let counted = move |usage: Usage| {
        let service = service.clone();
        service_fn(move |request| {
            let response = service.call(request);
            let in_use = usage.begin();
            async move {
                let response = response.await?;
                Ok::<_, S::Error>(response.map(|body| Counted { body, _in_use: in_use }))
            }
        })
    };
    accept(listener, counted, None, cancel).await;
}

/// A body that uses its connection until it is dropped.
struct Counted<B> {
    body: B,
    _in_use: InUse,
}

impl<B: Body + Unpin> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use std::time::Duration;

    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::http1::CONNECTIONS;

    /// Serves a response of five parts, each after that time.
    async fn start(pause: Duration) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cancel = CancellationToken::new();
        let service = service_fn(move |_| async move {
            let parts = stream::unfold(1, move |number| async move {
                tokio::time::sleep(pause).await;
                let part = Frame::data(Bytes::from(format!("part {number};")));
                (number <= 5).then_some((Ok::<_, Infallible>(part), number + 1))
            });
            Ok::<_, Infallible>(Response::new(BodyExt::boxed_unsync(StreamBody::new(parts))))
        });
        tokio::spawn(serve(listener, service, cancel.clone()));
        (address, cancel)
    }

    /// Sends a request, and waits for the header of its response.
    async fn request(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_lasts_longer_than_the_connections_of_probes() {
        let (address, _cancel) = start(Duration::from_mins(1)).await;
        let mut body = String::new();
        request(address).await.read_to_string(&mut body).await.unwrap();
        assert!(body.contains("part 1;") && body.contains("part 5;"), "{body}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_goes_on_is_not_closed_for_other_connections() {
        let (address, _cancel) = start(Duration::from_secs(5)).await;
        let mut open = request(address).await;
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut body = String::new();
        open.read_to_string(&mut body).await.unwrap();
        assert!(body.contains("part 5;"), "{body}");
        assert_eq!(silent.swap_remove(0).read(&mut [0]).await.unwrap_or(0), 0);
    }
}
