//! The headers in which this server, as an authenticating proxy, names the user of a request to another server.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::identity::Identity;
use crate::syntax::percent_encoded;

const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
/// Followed by the key.
const EXTRA: &str = "x-remote-extra-";

/// What other servers read to know the headers, and which certificate to accept them from: a part of the ConfigMap
/// `extension-apiserver-authentication`.
pub(crate) const CONFIGURATION: [(&str, &str); 4] = [
    ("requestheader-username-headers", "[\"X-Remote-User\"]"),
    ("requestheader-uid-headers", "[\"X-Remote-Uid\"]"),
    ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
    ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
];

/// Names the user instead of the names that the client sent. What is not valid in a header is omitted.
pub(crate) fn name_user(headers: &mut HeaderMap, user: &Identity) {
    let of_client = headers.keys().filter(|name| name.as_str().starts_with("x-remote-"));
    for name in of_client.cloned().collect::<Vec<HeaderName>>() {
        headers.remove(name);
    }
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    };
    add(USER, &user.user);
    if !user.uid.is_empty() {
        add(UID, &user.uid);
    }
    for group in &user.groups {
        add(GROUP, group);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escaped(key));
        for value in values {
            add(&name, value);
        }
    }
}

/// A key as a part of the name of a header: what is not allowed there, and `%`, is percent-encoded.
fn escaped(key: &str) -> String {
    percent_encoded(key, |byte| {
        byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_replaces_what_the_client_says_about_itself() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-remote-group", "system:masters"), ("accept", "application/json")] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let user = Identity {
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: [("example.com/scopes".to_owned(), vec!["one".to_owned()])].into(),
            ..Identity::user("alice")
        };
        name_user(&mut headers, &user);
        let mut texts: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        texts.sort();
        let expected = [
            "accept: application/json",
            "x-remote-extra-example.com%2fscopes: one",
            "x-remote-group: a",
            "x-remote-group: b",
            "x-remote-user: alice",
        ];
        assert_eq!(texts, expected);
    }
}
