//! Runs an API server until Ctrl-C: `serve KUBECONFIG [PORT] [--rbac]` writes the kubeconfig. With `--rbac` the
//! server authorizes requests by roles.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use apiserver::{Authorization, Identity, Options, Server};
use clock::{Clock, Seed};
use durable::private_files;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (flags, arguments): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|text| text.starts_with("--"));
    let mut arguments = arguments.into_iter();
    let kubeconfig = PathBuf::from(arguments.next().ok_or("usage: serve KUBECONFIG [PORT] [--rbac]")?);
    let port = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let mut options = Options::new(Clock::wall(), Seed::from_entropy()?);
    match flags.as_slice() {
        [] => {}
        [flag] if flag == "--rbac" => options.authorization = Authorization::Rbac,
        _ => return Err(format!("unknown flags {flags:?}; there is only --rbac").into()),
    }
    let server = Server::new(options)?;
    let serving = server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let text = serving.kubeconfig(&Identity::admin())?;
    private_files::replace(&kubeconfig, text.as_bytes())?;
    println!("{} (kubeconfig: {})", serving.url(), kubeconfig.display());
    tokio::signal::ctrl_c().await?;
    serving.shutdown().await;
    Ok(())
}
