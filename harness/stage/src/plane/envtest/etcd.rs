//! Reads and restores the contents of a control plane's etcd.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use runtime::error::brief;
use serde::Deserialize;
use serde_json::{Value, json};

/// The prefix of all keys of an API server.
const ALL: &str = "/registry/";
/// The end of the key range with the prefix [`ALL`].
const END_OF_ALL: &str = "/registry0";
/// The prefix of the key of the Lease that an API server renews for itself.
const OWN_LEASE: &str = "/registry/leases/kube-system/apiserver-";
/// The number of changes in a transaction, below the limit of etcd (`--max-txn-ops` is 128).
const CHANGES_AT_ONCE: usize = 100;
/// The maximum number of comparisons until nothing differs.
const ATTEMPTS: usize = 5;

/// Errors of reading and restoring the contents of etcd.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// The client cannot be created.
    #[error("cannot create a client of etcd: {}", brief(.0))]
    Client(#[source] kube::Error),
    /// Its address cannot be parsed.
    #[error(transparent)]
    Address(#[from] http::uri::InvalidUri),
    /// A request cannot be built.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// A call fails.
    #[error("etcd call {call} failed: {}", brief(source))]
    Call {
        /// The method.
        call: &'static str,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The response does not contain a range of keys.
    #[error("the response of etcd is not a range of keys: {0}")]
    NoRange(#[source] serde_json::Error),
    /// A key is not base64 of UTF-8.
    #[error("etcd has a key that is not text: {key}")]
    Key {
        /// The key in base64.
        key: String,
    },
    /// Another client keeps writing.
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

/// The stored values by key. Values are in base64, as in the JSON gateway of etcd.
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

/// A change that restores one key.
#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    Put(&'a str, &'a str),
    Delete(&'a str),
}

impl Etcd {
    /// A client of the etcd that serves plain HTTP on a local port.
    ///
    /// # Errors
    /// When the client cannot be created.
    pub fn at(port: u16) -> Result<Self, EtcdError> {
        let address = format!("http://127.0.0.1:{port}").parse()?;
        let client = kube::Client::try_from(kube::Config::new(address));
        client.map(Self).map_err(EtcdError::Client)
    }

    /// Reads everything that an API server stores.
    ///
    /// # Errors
    /// The error of etcd.
    pub async fn contents(&self) -> Result<Contents, EtcdError> {
        let range = json!({ "key": BASE64_STANDARD.encode(ALL), "range_end": BASE64_STANDARD.encode(END_OF_ALL) });
        let range: Range = serde_json::from_value(self.call("range", &range).await?).map_err(EtcdError::NoRange)?;
        let pairs = range.kvs.into_iter().map(|pair| {
            let key = BASE64_STANDARD.decode(&pair.key).ok();
            let key = key.and_then(|key| String::from_utf8(key).ok());
            let key = key.ok_or(EtcdError::Key { key: pair.key })?;
            Ok((key, pair.value))
        });
        Ok(Contents(pairs.collect::<Result<_, EtcdError>>()?))
    }

    /// Restores the contents. API servers receive the changes as watch events of etcd.
    ///
    /// # Errors
    /// The error of etcd, or [`EtcdError::Changing`].
    pub async fn restore(&self, before: &Contents) -> Result<(), EtcdError> {
        for _ in 0..ATTEMPTS {
            let current = self.contents().await?;
            let changes = before.changes_from(&current);
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
    /// The names of the stored objects of a cluster-wide resource, with keys below `/registry/RESOURCE/`.
    pub fn names_of(&self, resource: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{ALL}{resource}/");
        self.0.keys().filter_map(move |key| key.strip_prefix(&prefix))
    }

    /// The changes that turn `current` into `self`, except for the API server's own Lease.
    fn changes_from<'a>(&'a self, current: &'a Self) -> Vec<Change<'a>> {
        let own = |key: &str| key.starts_with(OWN_LEASE);
        let put = self.0.iter().filter(|(key, value)| current.0.get(*key) != Some(*value));
        let put = put.map(|(key, value)| Change::Put(key, value));
        let delete = current.0.keys().filter(|key| !self.0.contains_key(*key));
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

    /// The change as an operation of a transaction.
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
    fn added_keys_are_deleted_and_changed_or_removed_keys_are_restored() {
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
    fn the_lease_of_the_api_server_is_not_restored() {
        let lease = "/registry/leases/kube-system/apiserver-7f3a";
        let other = "/registry/leases/kube-system/apiserver";
        assert_eq!(contents(&[(lease, "1")]).changes_from(&contents(&[(lease, "2")])), []);
        assert_eq!(
            contents(&[]).changes_from(&contents(&[(other, "2")])),
            [Change::Delete(other)]
        );
    }

    #[test]
    fn names_belong_to_one_resource() {
        let contents = contents(&[
            ("/registry/namespaces/default", ""),
            ("/registry/namespaces2/other", ""),
            ("/registry/pods/default/p", ""),
        ]);
        assert_eq!(contents.names_of("namespaces").collect::<Vec<_>>(), ["default"]);
    }
}
