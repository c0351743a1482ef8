//! The listeners of `fakecloud serve`: which address serves which API, and with which certificates.
//!
//! The control API injects faults, so with TLS it has an address and client authorities of its own: the certificate of a
//! machine controller does not open it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use futures::StreamExt;
use futures::stream::BoxStream;
use mcm_driver::tls::TlsFiles;
use tonic::transport::server::TcpIncoming;

use super::ServeOptions;
use crate::bind::bind;
use crate::tls::{self, Secured};

/// The APIs of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Apis {
    pub(super) driver: bool,
    pub(super) control: bool,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    flag: &'static str,
    address: SocketAddr,
    apis: Apis,
    /// Without them calls are not encrypted.
    files: Option<TlsFiles>,
}

/// The flags that a driver address off loopback needs.
const FOR_DRIVERS: &str = "--tls-cert, --tls-key and --tls-client-ca";
/// The flags that a control address off loopback needs.
const FOR_CONTROL: &str = "--tls-cert, --tls-key, --tls-client-ca and --tls-control-ca";

impl ServeOptions {
    /// The addresses to listen on.
    ///
    /// # Errors
    /// An address other than loopback has no certificates.
    fn endpoints(&self) -> anyhow::Result<Vec<Endpoint>> {
        let files = |ca: &Option<PathBuf>| {
            Some(TlsFiles {
                ca: ca.clone()?,
                cert: self.tls_cert.clone()?,
                key: self.tls_key.clone()?,
            })
        };
        let driver_files = files(&self.tls_client_ca);
        let driver = Endpoint {
            flag: "--address",
            address: self.address,
            apis: Apis {
                driver: true,
                control: driver_files.is_none() && self.control_address.is_none(),
            },
            files: driver_files,
        };
        let control = self.control_address.map(|address| Endpoint {
            flag: "--control-address",
            address,
            apis: Apis {
                driver: false,
                control: true,
            },
            files: files(&self.tls_control_ca),
        });
        let endpoints = [Some(driver), control].into_iter().flatten().collect::<Vec<_>>();
        let exposed = endpoints
            .iter()
            .find(|endpoint| endpoint.files.is_none() && !endpoint.address.ip().is_loopback());
        if let Some(Endpoint {
            flag, address, apis, ..
        }) = exposed
        {
            let missing = if apis.driver { FOR_DRIVERS } else { FOR_CONTROL };
            bail!(
                "{flag} {address}: only loopback addresses are served without encryption: \
                 give {missing}, which `fakecloud certificates` makes"
            );
        }
        Ok(endpoints)
    }
}

/// The listeners and their public addresses.
pub(super) struct Incoming {
    pub(super) listeners: Vec<Listener>,
    /// What is served besides gRPC, and where, for the announcement.
    pub(super) pages: Vec<String>,
}

/// A bound address.
pub(super) struct Listener {
    address: SocketAddr,
    scheme: &'static str,
    pub(super) apis: Apis,
    pub(super) connections: Connections,
}

/// The connections of a listener.
pub(super) enum Connections {
    Plain(TcpIncoming),
    Tls(BoxStream<'static, io::Result<Secured>>),
}

impl Incoming {
    /// Binds the addresses.
    ///
    /// # Errors
    /// An address is not available or not safe, or the certificates are not usable.
    pub(super) async fn listen(options: &ServeOptions) -> anyhow::Result<Self> {
        let mut listeners = Vec::new();
        for endpoint in options.endpoints()? {
            listeners.push(endpoint.bind().await?);
        }
        Ok(Self {
            listeners,
            pages: Vec::new(),
        })
    }

    /// The line that says where it serves. Scripts wait for it.
    pub(super) fn announcement(&self) -> String {
        let mut parts = Vec::new();
        for listener in &self.listeners {
            let Listener {
                address, scheme, apis, ..
            } = listener;
            parts.push(match apis.driver {
                true => format!("fakecloud serves on {address}; as a driver: {scheme}://{address}"),
                false => format!("control: {scheme}://{address}"),
            });
        }
        parts.extend(self.pages.iter().cloned());
        parts.join("; ")
    }
}

impl Endpoint {
    async fn bind(self) -> anyhow::Result<Listener> {
        let Self {
            flag,
            address,
            apis,
            files,
        } = self;
        let listener = bind(flag, address).await?;
        let address = listener.local_addr().context("the listener has no address")?;
        let (scheme, connections) = match files {
            Some(files) => ("grpcs", Connections::Tls(tls::incoming(listener, files)?.boxed())),
            None => {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                ("grpc", Connections::Plain(incoming))
            }
        };
        Ok(Listener {
            address,
            scheme,
            apis,
            connections,
        })
    }
}
