//! An API server on a port of its own until Ctrl-C: `serve KUBECONFIG [PORT]` writes the kubeconfig.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use apiserver::{Identity, Options, Server, serve};
use clock::{Clock, Seed};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let kubeconfig = PathBuf::from(arguments.next().ok_or("usage: serve KUBECONFIG [PORT]")?);
    let port = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let server = Server::new(Options::new(Clock::wall(), Seed::from_entropy()?))?;
    let serving = server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    serve::write_private(&kubeconfig, &serving.kubeconfig(&Identity::admin())?)?;
    println!("{} (kubeconfig: {})", serving.url(), kubeconfig.display());
    tokio::signal::ctrl_c().await?;
    serving.shutdown().await;
    Ok(())
}
