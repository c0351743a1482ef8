//! Ports of services.

use std::fmt;
use std::str::FromStr;

/// A port of a service, such as a webhook's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// The namespace of the service.
    pub namespace: String,
    /// The name of the service.
    pub name: String,
    /// The port of the service, not that of its pods.
    pub port: u16,
}

/// A text that is no port of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NAMESPACE/NAME:PORT, such as default/webhook:443")]
pub struct NoServicePort(String);

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.name, self.port)
    }
}

impl FromStr for ServicePort {
    type Err = NoServicePort;

    /// Parses `NAMESPACE/NAME:PORT`.
    fn from_str(text: &str) -> Result<Self, NoServicePort> {
        let parts = || {
            let (service, port) = text.rsplit_once(':')?;
            let (namespace, name) = service.split_once('/')?;
            let port = port.parse().ok().filter(|port| *port != 0)?;
            (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then(|| Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                port,
            })
        };
        parts().ok_or_else(|| NoServicePort(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("default/webhook:443", true)]
    #[case("webhook:443", false)]
    #[case("default/webhook", false)]
    #[case("default/webhook:0", false)]
    #[case("default/webhook:70000", false)]
    #[case("/webhook:443", false)]
    #[case("a/b/c:443", false)]
    fn a_port_of_a_service_has_three_parts(#[case] text: &str, #[case] is_one: bool) {
        let parsed = text.parse::<ServicePort>();
        assert_eq!(parsed.as_ref().is_ok(), is_one);
        assert!(parsed.is_err() || parsed.unwrap().to_string() == text);
    }
}
