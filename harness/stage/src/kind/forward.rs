//! Forwards a port of this machine to the pod of fakecloud, through the API server.
//!
//! Each connection looks up the pod again, so that it finds a restarted pod.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use runtime::error::brief;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::pod_state::is_ready;
use crate::ports::PortError;

/// A port forward. Dropping it closes the port and all connections.
#[derive(Debug)]
pub(super) struct Forward {
    address: SocketAddr,
    _listening: JoinSet<()>,
}

impl Forward {
    /// Listens on a free port of the loopback address.
    ///
    /// # Errors
    /// When no port is free.
    pub(super) async fn start(client: kube::Client, namespace: &str, app: &str, port: u16) -> Result<Self, PortError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.map_err(PortError::Bind)?;
        let address = listener.local_addr().map_err(PortError::Bind)?;
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let list = ListParams::default().labels(&format!("app.kubernetes.io/name={app}"));
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (pods, list) = (pods.clone(), list.clone());
                connections.spawn(async move {
                    if let Err(error) = forward(stream, &pods, &list, port).await {
                        tracing::debug!("a connection to {port} ended: {error}");
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            _listening: listening,
        })
    }

    /// The local address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Errors of a connection.
#[derive(Debug, thiserror::Error)]
enum ForwardError {
    #[error("{}", brief(.0))]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("no pod is ready")]
    NoPod,
    #[error("no stream for the port")]
    NoStream,
}

/// Forwards one connection until either side closes it.
async fn forward(mut stream: TcpStream, pods: &Api<Pod>, list: &ListParams, port: u16) -> Result<(), ForwardError> {
    let listed = pods.list(list).await?;
    let pod = listed.items.iter().find(|pod| is_ready(pod));
    let name = pod
        .and_then(|pod| pod.metadata.name.as_deref())
        .ok_or(ForwardError::NoPod)?;
    let mut forwarder = pods.portforward(name, &[port]).await?;
    let mut pod_stream = forwarder.take_stream(port).ok_or(ForwardError::NoStream)?;
    let copied = tokio::io::copy_bidirectional(&mut stream, &mut pod_stream).await;
    forwarder.abort();
    copied?;
    Ok(())
}
