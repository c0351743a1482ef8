//! Requests to one of the servers.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use apiserver::{Authorization, Identity, Options};
use clock::{Clock, Seed};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

/// A response.
pub struct Answer {
    pub code: u16,
    /// Sorted.
    pub warnings: Vec<String>,
    pub body: Value,
}

/// A server.
pub struct Server {
    client: Client,
}

/// The path of the objects of a kind; `{namespace}` stands for their namespace.
pub struct Type {
    pub folder: String,
    pub namespaced: bool,
}

/// The kinds of a server.
pub struct Types(BTreeMap<(String, String), Type>);

impl Types {
    pub fn of(&self, version: &str, kind: &str) -> Option<&Type> {
        self.0.get(&(version.to_owned(), kind.to_owned()))
    }

    /// How many of these kinds another server does not have.
    pub fn missing_in(&self, other: &Self) -> usize {
        self.0.keys().filter(|key| !other.0.contains_key(key)).count()
    }
}

impl Server {
    pub fn embedded() -> Result<Self, Box<dyn Error>> {
        let mut options = Options::new(Clock::wall(), Seed::from_entropy()?);
        options.authorization = Authorization::Rbac;
        let server = apiserver::Server::new(options)?;
        let client = Client::new(server.service(Identity::admin()), "default");
        Ok(Self { client })
    }

    pub async fn real(kubeconfig: &Path) -> Result<Self, Box<dyn Error>> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // Error responses are expected: do not retry.
        config.default_retry = false;
        Ok(Self {
            client: Client::try_from(config)?,
        })
    }

    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Answer, Box<dyn Error>> {
        let media_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let content = match body {
            Value::Null => Body::empty(),
            body => Body::from(body.to_string().into_bytes()),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .body(content)?;
        let (parts, body) = self.client.send(request).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let warnings = parts.headers.get_all("warning").iter();
        let mut warnings: Vec<String> = warnings
            .filter_map(|warning| warning.to_str().ok().map(str::to_owned))
            .collect();
        warnings.sort();
        Ok(Answer {
            code: parts.status.as_u16(),
            warnings,
            body: serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()),
        })
    }

    /// Deletes a created object, also if it has finalizers.
    pub async fn remove(&self, folder: &str, created: &Answer) -> Result<(), Box<dyn Error>> {
        let Some(name) = created.body["metadata"]["name"]
            .as_str()
            .filter(|_| created.code == 201)
        else {
            return Ok(());
        };
        let path = format!("{folder}/{name}");
        if created.body["metadata"]["finalizers"].is_array() {
            let change = json!({ "metadata": { "finalizers": null } });
            self.send("PATCH", &path, &change).await?;
        }
        let options = json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Background" });
        self.send("DELETE", &path, &options).await?;
        Ok(())
    }

    /// The kinds that can be created.
    pub async fn types(&self) -> Result<Types, Box<dyn Error>> {
        let groups = self.send("GET", "/apis", &Value::Null).await?.body;
        let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
        for group in groups["groups"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let version = version["groupVersion"].as_str().unwrap_or_default();
                versions.push((format!("/apis/{version}"), version.to_owned()));
            }
        }
        let mut types = BTreeMap::new();
        for (path, version) in versions {
            let resources = self.send("GET", &path, &Value::Null).await?.body;
            for resource in resources["resources"].as_array().into_iter().flatten() {
                let (name, kind) = (resource["name"].as_str(), resource["kind"].as_str());
                let (Some(name), Some(kind)) = (name, kind) else {
                    continue;
                };
                let verbs = resource["verbs"].as_array();
                let is_stored =
                    verbs.is_some_and(|verbs| ["create", "get"].iter().all(|verb| verbs.contains(&json!(verb))));
                if name.contains('/') || !is_stored {
                    continue;
                }
                let namespaced = resource["namespaced"] == true;
                let folder = match namespaced {
                    true => format!("{path}/namespaces/{{namespace}}/{name}"),
                    false => format!("{path}/{name}"),
                };
                types.insert((version.clone(), kind.to_owned()), Type { folder, namespaced });
            }
        }
        Ok(Types(types))
    }
}
