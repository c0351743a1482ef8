//! The contents of a control plane's etcd: reading all of it, and putting it back as it was.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

/// Everything that an API server stores begins with it.
const ALL: &str = "/registry/";
/// The first key behind [`ALL`].
const BEHIND_ALL: &str = "/registry0";
/// The Lease that an API server renews all the time, whatever its clients do.
const OWN_LEASE: &str = "/registry/leases/kube-system/apiserver-";
/// How many changes etcd takes in one transaction (`--max-txn-ops` is 128).
const CHANGES_AT_ONCE: usize = 100;
/// How often the contents are compared until nothing differs.
const ATTEMPTS: usize = 5;

/// Why the contents of an etcd cannot be read or restored.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// There is no client.
    #[error("no client for etcd: {0}")]
    Client(#[source] kube::Error),
    /// Its address cannot be parsed.
    #[error(transparent)]
    Address(#[from] http::uri::InvalidUri),
    /// A request cannot be made.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// A call fails.
    #[error("etcd did not answer {call}: {source}")]
    Call {
        /// The method.
        call: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The answer is not what the method returns.
    #[error("etcd's answer is no range of keys: {0}")]
    NoRange(#[source] serde_json::Error),
    /// A key is not base64 of UTF-8.
    #[error("etcd has a key that is no text: {key}")]
    Key {
        /// The key as etcd sends it.
        key: String,
    },
    /// Something else writes all the time.
    #[error("the contents of etcd still change after {ATTEMPTS} attempts to restore them")]
    Changing,
}

/// A client of an etcd.
#[derive(Clone)]
pub struct Etcd(kube::Client);

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Etcd")
    }
}

/// What is stored: values by key. Values are in base64, as the gateway has them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<String, String>);

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
}

/// One step back.
#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    Put(&'a str, &'a str),
    Delete(&'a str),
}

impl Etcd {
    /// A client of the etcd that serves plain HTTP on a port of this machine.
    ///
    /// # Errors
    /// When there is no client.
    pub fn at(port: u16) -> Result<Self, EtcdError> {
        let address = format!("http://127.0.0.1:{port}").parse()?;
        let client = kube::Client::try_from(kube::Config::new(address));
        client.map(Self).map_err(EtcdError::Client)
    }

    /// All that an API server stores.
    ///
    /// # Errors
    /// What etcd answered.
    pub async fn contents(&self) -> Result<Contents, EtcdError> {
        let range = json!({ "key": BASE64_STANDARD.encode(ALL), "range_end": BASE64_STANDARD.encode(BEHIND_ALL) });
        let range: Range = serde_json::from_value(self.call("range", &range).await?).map_err(EtcdError::NoRange)?;
        let pairs = range.kvs.into_iter().map(|pair| {
            let key = BASE64_STANDARD.decode(&pair.key).ok();
            let key = key.and_then(|key| String::from_utf8(key).ok());
            let key = key.ok_or(EtcdError::Key { key: pair.key })?;
            Ok((key, pair.value))
        });
        Ok(Contents(pairs.collect::<Result<_, EtcdError>>()?))
    }

    /// Restores what was stored. API servers receive the changes as watch events of etcd.
    ///
    /// # Errors
    /// What etcd answered, or [`EtcdError::Changing`].
    pub async fn restore(&self, before: &Contents) -> Result<(), EtcdError> {
        for _ in 0..ATTEMPTS {
            let now = self.contents().await?;
            let changes = before.changes_from(&now);
            if changes.is_empty() {
                return Ok(());
            }
            for changes in changes.chunks(CHANGES_AT_ONCE) {
                let changes: Vec<Value> = changes.iter().map(Change::request).collect();
                self.call("txn", &json!({ "success": changes })).await?;
            }
        }
        Err(EtcdError::Changing)
    }

    async fn call(&self, call: &'static str, body: &Value) -> Result<Value, EtcdError> {
        let request = http::Request::post(format!("/v3/kv/{call}")).body(body.to_string().into_bytes())?;
        let answer = self.0.request(request).await;
        answer.map_err(|source| EtcdError::Call {
            call,
            source: Box::new(source),
        })
    }
}

impl Contents {
    /// The names of objects that are stored below `/registry/RESOURCE/`, of a resource without namespaces.
    pub fn names_of(&self, resource: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{ALL}{resource}/");
        self.0.keys().filter_map(move |key| key.strip_prefix(&prefix))
    }

    /// What has to change for `now` to become this.
    fn changes_from<'a>(&'a self, now: &'a Self) -> Vec<Change<'a>> {
        let own = |key: &str| key.starts_with(OWN_LEASE);
        let put = self.0.iter().filter(|(key, value)| now.0.get(*key) != Some(*value));
        let put = put.map(|(key, value)| Change::Put(key, value));
        let delete = now.0.keys().filter(|key| !self.0.contains_key(*key));
        let delete = delete.map(|key| Change::Delete(key));
        put.chain(delete).filter(|change| !own(change.key())).collect()
    }
}

impl Change<'_> {
    fn key(&self) -> &str {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    /// As an operation of a transaction.
    fn request(&self) -> Value {
        let key = BASE64_STANDARD.encode(self.key());
        match self {
            Self::Put(_, value) => json!({ "request_put": { "key": key, "value": value } }),
            Self::Delete(_) => json!({ "request_delete_range": { "key": key } }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(pairs: &[(&str, &str)]) -> Contents {
        Contents(
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn what_was_added_goes_and_what_was_changed_or_removed_comes_back() {
        let before = contents(&[("/registry/a", "1"), ("/registry/b", "1"), ("/registry/c", "1")]);
        let now = contents(&[("/registry/a", "1"), ("/registry/b", "2"), ("/registry/d", "1")]);
        let changes = before.changes_from(&now);
        assert_eq!(
            changes,
            [
                Change::Put("/registry/b", "1"),
                Change::Put("/registry/c", "1"),
                Change::Delete("/registry/d")
            ]
        );
        assert_eq!(before.changes_from(&before), []);
    }

    #[test]
    fn the_lease_of_the_api_server_is_left_to_it() {
        let lease = "/registry/leases/kube-system/apiserver-7f3a";
        let other = "/registry/leases/kube-system/apiserver";
        assert_eq!(contents(&[(lease, "1")]).changes_from(&contents(&[(lease, "2")])), []);
        assert_eq!(
            contents(&[]).changes_from(&contents(&[(other, "2")])),
            [Change::Delete(other)]
        );
    }

    #[test]
    fn names_are_those_of_one_resource() {
        let contents = contents(&[
            ("/registry/namespaces/default", ""),
            ("/registry/namespaces2/other", ""),
            ("/registry/pods/default/p", ""),
        ]);
        assert_eq!(contents.names_of("namespaces").collect::<Vec<_>>(), ["default"]);
    }
}
