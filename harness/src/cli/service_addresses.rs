//! Where the services run that webhooks and API services name.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use apiserver::ServicePort;
use clap::Args;

#[derive(Args, Clone, Debug, Default)]
pub(super) struct ServiceAddresses {
    /// Where the API server reaches a service that a webhook or an APIService names, for instance
    /// `--service=default/webhook:443=127.0.0.1:9443`; it looks up others in EndpointSlices. Can be repeated
    #[arg(long = "service", value_name = "NAMESPACE/NAME:PORT=ADDRESS:PORT", value_parser = parse)]
    services: Vec<(ServicePort, SocketAddr)>,
}

impl ServiceAddresses {
    pub(super) fn into_map(self) -> BTreeMap<ServicePort, SocketAddr> {
        self.services.into_iter().collect()
    }

    pub(super) fn is_given(&self) -> bool {
        !self.services.is_empty()
    }
}

fn parse(text: &str) -> Result<(ServicePort, SocketAddr), String> {
    let (service, address) = text
        .split_once('=')
        .ok_or("the address is missing: write NAMESPACE/NAME:PORT=ADDRESS:PORT")?;
    let service = service
        .parse()
        .map_err(|error: apiserver::NoServicePort| error.to_string())?;
    let address = address
        .parse()
        .map_err(|_| format!("{address:?} is not an IP address with a port, such as 127.0.0.1:9443"))?;
    Ok((service, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_needs_its_port_and_an_address() {
        let (service, address) = parse("default/webhook:443=127.0.0.1:9443").unwrap();
        assert_eq!(
            (service.to_string().as_str(), address.port()),
            ("default/webhook:443", 9443)
        );
        for wrong in [
            "default/webhook:443",
            "webhook=127.0.0.1:9443",
            "default/webhook:443=localhost:9443",
            "default/webhook:443=127.0.0.1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
