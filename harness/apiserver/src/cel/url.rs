//! URLs, parsed as Go's `url.ParseRequestURI` does: absolute URLs and absolute paths.

use std::collections::HashMap;

use super::native::Native;
use super::{Key, Map, Value, native};

/// A URL. The parts are as they were written, without changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    text: String,
    scheme: String,
    /// With the port.
    host: String,
    path: String,
    query: String,
}

/// A value with the functions of URLs.
///
/// # Errors
/// The reason why the text is no URL.
pub(super) fn url(text: &str) -> Result<Value, String> {
    let parsed =
        parse(text).map_err(|why| format!("URL parse error during conversion from string: parse {text:?}: {why}"))?;
    Ok(native(parsed))
}

/// Whether a text is a URL.
pub(super) fn is_url(text: &str) -> bool {
    parse(text).is_ok()
}

fn parse(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url {
        text: text.to_owned(),
        scheme: scheme.to_lowercase(),
        host: String::new(),
        path: rest.to_owned(),
        query: query.to_owned(),
    };
    if text == "*" {
        return Ok(url);
    }
    if !rest.starts_with('/') {
        // Such as mailto:user@example.com: the rest has no path.
        url.path.clear();
        return if scheme.is_empty() {
            Err("invalid URI for request".to_owned())
        } else {
            Ok(url)
        };
    }
    if let Some(rest) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        url.host = host_of(authority)?;
        url.path = path.to_owned();
    }
    check_escapes(&url.path)?;
    Ok(url)
}

/// The scheme and the rest; no scheme if the text begins with something else.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (place, letter) in text.char_indices() {
        match letter {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if place > 0 => {}
            ':' if place == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => {
                let (scheme, rest) = text.split_at(place);
                return Ok((scheme, rest.get(1..).unwrap_or_default()));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

/// The host of an authority, with its port.
fn host_of(authority: &str) -> Result<String, String> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_user) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        host.get(end.saturating_add(1)..).unwrap_or_default()
    } else {
        host.find(':').and_then(|colon| host.get(colon..)).unwrap_or_default()
    };
    let digits = port.strip_prefix(':').unwrap_or(if port.is_empty() { "" } else { "x" });
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("invalid port {port:?} after host"));
    }
    let is_host =
        |byte: u8| !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"%".contains(&byte);
    match host.bytes().find(|byte| !is_host(*byte)) {
        Some(byte) => Err(format!(
            "invalid character {:?} in host name",
            char::from(byte).to_string()
        )),
        None => Ok(host.to_owned()),
    }
}

fn check_escapes(path: &str) -> Result<(), String> {
    for (place, _) in path.match_indices('%') {
        let escape = path.get(place..place.saturating_add(3)).unwrap_or_default();
        if escape.len() < 3 || !escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit()) {
            let shown: String = path.get(place..).unwrap_or_default().chars().take(3).collect();
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

impl Url {
    fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[') {
            return rest.split(']').next().unwrap_or_default();
        }
        self.host.split(':').next().unwrap_or_default()
    }

    fn port(&self) -> &str {
        let after = self.host.rsplit(']').next().unwrap_or_default();
        after.split_once(':').map_or("", |(_, port)| port)
    }

    /// The values of each key of the query.
    fn query(&self) -> Value {
        let mut values: HashMap<Key, Vec<Value>> = HashMap::new();
        let pairs = self
            .query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'));
        for pair in pairs {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescaped(key), unescaped(value)) {
                values.entry(key.into()).or_default().push(value.into());
            }
        }
        let map = values
            .into_iter()
            .map(|(key, values)| (key, Value::List(values.into())));
        Value::Map(Map {
            map: map.collect::<HashMap<Key, Value>>().into(),
        })
    }
}

/// A part of a query without escapes; `None` if one is invalid.
fn unescaped(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high.checked_mul(16)?.checked_add(low)?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

impl Native for Url {
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }

    fn call(&self, function: &str, arguments: &[Value]) -> Result<Value, String> {
        if !arguments.is_empty() {
            return Err("no such overload".to_owned());
        }
        Ok(match function {
            "getScheme" => self.scheme.as_str().into(),
            "getHost" => self.host.as_str().into(),
            "getHostname" => self.hostname().into(),
            "getPort" => self.port().into(),
            "getEscapedPath" => self.path.as_str().into(),
            "getQuery" => self.query(),
            _ => return Err("no such overload".to_owned()),
        })
    }

    fn cost(&self, _function: &str) -> u64 {
        1
    }

    fn identity(&self) -> Option<&str> {
        Some(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://user@Example.com:80/a%20b?x=1&x=2", Some(["https", "Example.com:80", "Example.com", "80", "/a%20b"]))]
    #[case("/absolute?x", Some(["", "", "", "", "/absolute"]))]
    #[case("HTTP://[::1]:8080", Some(["http", "[::1]:8080", "::1", "8080", ""]))]
    #[case("mailto:a@example.com", Some(["mailto", "", "", "", ""]))]
    #[case("http://", Some(["http", "", "", "", ""]))]
    #[case("//host/path", Some(["", "", "", "", "//host/path"]))]
    #[case("", None)]
    #[case("relative", None)]
    #[case("../up", None)]
    #[case(":no-scheme", None)]
    #[case("http://a b/", None)]
    #[case("http://a:port/", None)]
    #[case("http://a/%zz", None)]
    #[case("http://[::1", None)]
    #[case("http://a\n/", None)]
    fn parts_of_a_url(#[case] text: &str, #[case] expected: Option<[&str; 5]>) {
        let url = parse(text).ok();
        let found = url
            .as_ref()
            .map(|url| [&url.scheme, &url.host, url.hostname(), url.port(), &url.path]);
        assert_eq!(found, expected);
    }
}
