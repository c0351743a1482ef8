//! A connection to an API server that can be cut: forwards TCP connections until it is cut, and refuses them until it is restored.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy on the loopback address.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its port.
    pub port: u16,
    cut: Arc<watch::Sender<bool>>,
}

impl Proxy {
    /// Forwards connections to `target` for as long as the process runs.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(target: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (cut, state) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                if !*state.borrow() {
                    tokio::spawn(forward(connection, target, state.clone()));
                }
            }
        });
        Ok(Self {
            port,
            cut: Arc::new(cut),
        })
    }

    /// Ends all connections and accepts no other.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Forwards connections again.
    pub fn restore(&self) {
        self.cut.send_replace(false);
    }
}

async fn forward(mut connection: TcpStream, target: SocketAddr, mut state: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    tokio::select! {
        _ = state.wait_for(|cut| *cut) => {}
        _ = copy_bidirectional(&mut connection, &mut server) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_cut_ends_connections_until_it_is_restored() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let target = server.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = server.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = connection.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        let proxy = Proxy::start(target).await.unwrap();
        let mut first = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        first.write_all(b"a").await.unwrap();
        assert_eq!(first.read_u8().await.unwrap(), b'a');
        proxy.cut();
        assert!(first.read_u8().await.is_err());
        let mut refused = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        assert!(refused.read_u8().await.is_err());
        proxy.restore();
        let mut again = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
        again.write_all(b"b").await.unwrap();
        assert_eq!(again.read_u8().await.unwrap(), b'b');
    }
}
