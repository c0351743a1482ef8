//! The program `skeleton-driver ADDRESS`: serves the driver over gRPC, without TLS and therefore on loopback only.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use mcm_driver::of_provider::OfProvider;
use mcm_driver::server::DriverService;
use skeleton_driver::{PROVIDER, Skeleton};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7300".to_owned());
    let address: SocketAddr = address.parse().context("usage: skeleton-driver HOST:PORT")?;
    ensure!(
        address.ip().is_loopback(),
        "{address} is not on loopback: serve there with TLS, see mcm_driver::incoming"
    );
    let listener = TcpListener::bind(address).await?;
    println!("skeleton-driver serves on {}", listener.local_addr()?);
    // OfProvider rejects the classes of other providers.
    let driver = OfProvider::new(PROVIDER, Skeleton::default());
    Server::builder()
        .add_service(DriverService::new(driver).into_server())
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await?;
    Ok(())
}
