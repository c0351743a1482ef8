//! Which proxy an outgoing connection uses, by the environment variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
//!
//! The rules are those of Go's `net/http`, which kubectl and upstream's controllers follow: lower-case names are read
//! too, and connections to loopback never use a proxy. This crate decides; it opens no connection.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxy variables of a process.
#[derive(Clone, Default)]
pub struct Proxies {
    /// For HTTPS and gRPC, with the name of the variable.
    https: Option<(&'static str, String)>,
    /// For plain HTTP.
    http: Option<(&'static str, String)>,
    /// The hosts that are reached directly.
    no: String,
}

/// An environment variable does not contain the URL of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {variable} is not the URL of a proxy: write http://HOST:PORT or https://HOST:PORT")]
pub struct InvalidProxy {
    variable: &'static str,
}

impl fmt::Debug for Proxies {
    /// Without the URLs, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |proxy: &Option<(&'static str, String)>| proxy.as_ref().map(|(variable, _)| *variable);
        f.debug_struct("Proxies")
            .field("https", &name(&self.https))
            .field("http", &name(&self.http))
            .field("no", &self.no)
            .finish()
    }
}

impl Proxies {
    /// Reads the variables of this process.
    pub fn from_environment() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads the variables by a function. Empty values count as unset, and upper case has precedence.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            let set = names.into_iter().filter_map(|name| Some((name, variable(name)?)));
            set.map(|(name, value)| (name, value.trim().to_owned()))
                .find(|(_, value)| !value.is_empty())
        };
        Self {
            https: first(["HTTPS_PROXY", "https_proxy"]),
            http: first(["HTTP_PROXY", "http_proxy"]),
            no: first(["NO_PROXY", "no_proxy"]).map_or_else(String::new, |(_, value)| value),
        }
    }

    /// The proxy for a connection to `target`, an `http` or `https` URL; `None`: connect directly.
    ///
    /// # Errors
    /// If the variable that applies does not contain a proxy's URL.
    pub fn of(&self, target: &Uri) -> Result<Option<Uri>, InvalidProxy> {
        let (proxy, default_port) = match target.scheme_str() {
            Some("http") => (&self.http, 80),
            _ => (&self.https, 443),
        };
        let (Some((variable, value)), Some(host)) = (proxy, target.host()) else {
            return Ok(None);
        };
        let port = target.port_u16().unwrap_or(default_port);
        if is_loopback(host) || self.excludes(host, port) {
            return Ok(None);
        }
        parse(value).map(Some).ok_or(InvalidProxy { variable })
    }

    /// Whether `NO_PROXY` contains the host. hyper-util knows hosts, addresses and networks; Go also knows ports.
    fn excludes(&self, host: &str, port: u16) -> bool {
        let entries = self
            .no
            .split(',')
            .map(str::trim)
            .filter_map(|entry| at_port(entry, port));
        // A leading `*.` means the same as a leading dot.
        let entries: Vec<&str> = entries
            .map(|entry| {
                entry
                    .strip_prefix('*')
                    .filter(|rest| rest.starts_with('.'))
                    .unwrap_or(entry)
            })
            .collect();
        if entries.contains(&"*") {
            return true;
        }
        let target = Uri::builder()
            .scheme("http")
            .authority(bracketed(host))
            .path_and_query("/")
            .build();
        let matcher = Matcher::builder().http("http://proxy").no(entries.join(",")).build();
        target.is_ok_and(|target| matcher.intercept(&target).is_none())
    }
}

/// Whether the host is this machine's loopback interface.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The host in the syntax of URLs: IPv6 addresses are in brackets.
fn bracketed(host: &str) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

/// An entry of `NO_PROXY` without its port; `None`: it is for another port.
fn at_port(entry: &str, port: u16) -> Option<&str> {
    let unbracketed = |host: &'_ str| host.starts_with('[') || !host.contains(':');
    match entry.rsplit_once(':') {
        Some((host, digits)) if unbracketed(host) => match digits.parse::<u16>() {
            Ok(number) if number == port => Some(host.trim_matches(['[', ']'])),
            Ok(_) => None,
            Err(_) => Some(entry),
        },
        _ => Some(entry.trim_matches(['[', ']'])),
    }
}

/// The URL of a proxy; without a scheme it is `http`.
pub fn parse(value: &str) -> Option<Uri> {
    let value = match value.contains("://") {
        true => value.to_owned(),
        false => format!("http://{value}"),
    };
    let url: Uri = value.parse().ok()?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    (is_http && url.host().is_some_and(|host| !host.is_empty())).then_some(url)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Proxies::read(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn of(proxies: &Proxies, target: &str) -> Option<String> {
        let proxy = proxies.of(&target.parse().unwrap()).unwrap();
        proxy.map(|proxy| proxy.to_string())
    }

    #[rstest]
    #[case::https("https://cluster.example:6443", Some("http://secure:1/"))]
    #[case::http("http://cluster.example", Some("http://plain:2/"))]
    #[case::localhost("https://localhost:6443", None)]
    #[case::localhost_in_capitals("https://LocalHost:6443", None)]
    #[case::ipv4_loopback("https://127.0.0.1:6443", None)]
    #[case::another_ipv4_loopback("http://127.9.9.9", None)]
    #[case::ipv6_loopback("https://[::1]:6443", None)]
    #[case::a_name_that_only_begins_so("https://localhost.example", Some("http://secure:1/"))]
    fn the_scheme_selects_the_variable_and_loopback_uses_none(#[case] target: &str, #[case] expected: Option<&str>) {
        let proxies = proxies(&[("HTTPS_PROXY", "http://secure:1"), ("http_proxy", "plain:2")]);
        assert_eq!(of(&proxies, target).as_deref(), expected);
    }

    #[rstest]
    #[case::a_host("cluster.example", true)]
    #[case::a_domain("example", true)]
    #[case::a_domain_with_a_dot(".example", true)]
    #[case::a_domain_with_a_wildcard("*.example", true)]
    #[case::everything("*", true)]
    #[case::among_others("a.test, cluster.example ,", true)]
    #[case::its_port("cluster.example:6443", true)]
    #[case::another_port("cluster.example:443", false)]
    #[case::another_host("other.example", false)]
    #[case::a_part_of_the_name("ster.example", false)]
    #[case::empty(",,", false)]
    fn no_proxy_excludes_names(#[case] no: &str, #[case] excluded: bool) {
        let proxies = proxies(&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", no)]);
        assert_eq!(of(&proxies, "https://cluster.example:6443").is_none(), excluded);
    }

    #[rstest]
    #[case::everything("*", "10.1.2.3", true)]
    #[case::an_address("10.1.2.3", "10.1.2.3", true)]
    #[case::a_network("10.0.0.0/8", "10.1.2.3", true)]
    #[case::another_network("192.168.0.0/16", "10.1.2.3", false)]
    #[case::an_address_and_port("10.1.2.3:6443", "10.1.2.3", true)]
    #[case::an_ipv6_network("fd00::/8", "[fd00::1]", true)]
    #[case::an_ipv6_address("fd00::1", "[fd00::1]", true)]
    #[case::an_ipv6_address_in_brackets("[fd00::1]:6443", "[fd00::1]", true)]
    fn no_proxy_excludes_addresses(#[case] no: &str, #[case] host: &str, #[case] excluded: bool) {
        let proxies = proxies(&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", no)]);
        assert_eq!(of(&proxies, &format!("https://{host}:6443")).is_none(), excluded);
    }

    #[test]
    fn empty_variables_are_unset_and_upper_case_has_precedence() {
        assert_eq!(of(&proxies(&[("HTTPS_PROXY", " ")]), "https://cluster.example"), None);
        let both = proxies(&[("https_proxy", "http://lower:1"), ("HTTPS_PROXY", "http://upper:2")]);
        assert_eq!(of(&both, "https://cluster.example").as_deref(), Some("http://upper:2/"));
    }

    #[rstest]
    #[case::another_scheme("ftp://proxy:1")]
    #[case::socks("socks5://proxy:1")]
    #[case::no_host("http://")]
    #[case::a_space("http://pro xy")]
    fn an_invalid_proxy_is_reported_with_its_variable_but_not_for_loopback(#[case] value: &str) {
        let proxies = proxies(&[("HTTPS_PROXY", value)]);
        let error = proxies.of(&"https://cluster.example".parse().unwrap()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("HTTPS_PROXY") && message.contains("http://HOST:PORT"),
            "{message}"
        );
        assert_eq!(of(&proxies, "https://127.0.0.1:6443"), None);
    }

    #[test]
    fn a_password_is_not_in_the_debug_form() {
        let text = format!("{:?}", proxies(&[("HTTPS_PROXY", "http://me:secret@proxy:1")]));
        assert!(text.contains("HTTPS_PROXY") && !text.contains("secret"), "{text}");
    }
}
