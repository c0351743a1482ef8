//! Creates the definitions and manifests of a folder on the embedded server and on a real one, and compares what they
//! answer: `manifests FOLDER KUBECONFIG [DETAILS]`. Prints classes of differences; DETAILS gets each one as a line of JSON.
//!
//! Objects are deleted after the comparison. Kinds that act on other requests, such as webhooks, are created as a dry
//! run.

mod compare;
mod load;
mod report;
mod server;

use std::error::Error;
use std::path::PathBuf;

use serde_json::{Value, json};

use compare::Difference;
use load::Manifest;
use report::Report;
use server::{Answer, Server, Types};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// What acts on other requests: it is not stored.
const ACTIVE: [&str; 9] = [
    "Namespace",
    "APIService",
    "ResourceQuota",
    "LimitRange",
    "PriorityClass",
    "StorageClass",
    "RuntimeClass",
    "IngressClass",
    "ServiceCIDR",
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: manifests FOLDER KUBECONFIG [DETAILS]";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let kubeconfig = PathBuf::from(arguments.next().ok_or(usage)?);
    let details = arguments.next().map(PathBuf::from);
    let loaded = load::folder(&folder)?;
    let servers = Pair {
        embedded: Server::embedded()?,
        real: Server::real(&kubeconfig).await?,
    };
    let mut report = Report::default();
    report.skipped("no YAML, or a template", loaded.unreadable);
    let (definitions, manifests): (Vec<Manifest>, Vec<Manifest>) = loaded
        .manifests
        .into_iter()
        .partition(|manifest| manifest.kind == "CustomResourceDefinition");
    servers.define(definitions, &mut report).await?;
    servers.create(manifests, &mut report).await?;
    print!("{report}");
    if let Some(path) = details {
        std::fs::write(&path, report.details())?;
    }
    Ok(())
}

/// The two servers.
struct Pair {
    embedded: Server,
    real: Server,
}

impl Pair {
    async fn both(&self, method: &str, path: &str, body: &Value) -> Result<[Answer; 2], Box<dyn Error>> {
        let embedded = self.embedded.send(method, path, body).await?;
        Ok([embedded, self.real.send(method, path, body).await?])
    }

    /// Creates definitions and waits until they are served.
    async fn define(&self, definitions: Vec<Manifest>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let mut created: Vec<(Manifest, String)> = Vec::new();
        for definition in definitions {
            if definition.version != "apiextensions.k8s.io/v1" {
                report.skipped("a definition of an old version", 1);
                continue;
            }
            if created.iter().any(|(_, name)| *name == definition.name) {
                report.skipped("another version of a definition", 1);
                continue;
            }
            let [mut embedded, mut real] = self.both("POST", DEFINITIONS, &definition.object).await?;
            for answer in [&mut embedded, &mut real] {
                if answer.code == 201 {
                    // Controllers of kube-apiserver set it later.
                    answer.body["status"] = Value::Null;
                }
            }
            let found = compare::answers(&embedded, &real);
            let name = definition.name.clone();
            if found.is_empty() && real.code == 201 {
                created.push((definition, name));
            } else {
                report.compared(&definition, found);
            }
        }
        for (definition, name) in created {
            let found = self.established(&name).await?;
            report.compared(&definition, found);
        }
        Ok(())
    }

    /// The differences of a definition whose names both servers have decided about.
    async fn established(&self, name: &str) -> Result<Vec<Difference>, Box<dyn Error>> {
        let path = format!("{DEFINITIONS}/{name}");
        for _ in 0..300 {
            let [embedded, real] = self.both("GET", &path, &Value::Null).await?;
            let conditions = real.body["status"]["conditions"].as_array();
            if conditions.is_some_and(|conditions| conditions.len() >= 2) {
                return Ok(compare::definitions(&embedded, &real));
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Err(format!("{name} is not established").into())
    }

    async fn create(&self, manifests: Vec<Manifest>, report: &mut Report) -> Result<(), Box<dyn Error>> {
        let types = self.types().await?;
        let mut namespaces = Vec::new();
        for manifest in manifests {
            let Some(type_) = types.of(&manifest.version, &manifest.kind) else {
                report.skipped("a kind that no server has", 1);
                continue;
            };
            let mut folder = type_.folder.clone();
            if type_.namespaced {
                let namespace = manifest.namespace.clone();
                folder = folder.replace("{namespace}", &namespace);
                if !namespaces.contains(&namespace) {
                    let body = json!({ "metadata": { "name": namespace } });
                    self.both("POST", "/api/v1/namespaces", &body).await?;
                    namespaces.push(namespace);
                }
            }
            let is_active = ACTIVE.contains(&manifest.kind.as_str())
                || manifest.version.starts_with("admissionregistration.k8s.io/");
            let path = if is_active {
                format!("{folder}?dryRun=All")
            } else {
                folder.clone()
            };
            let [embedded, real] = self.both("POST", &path, &manifest.object).await?;
            report.compared(&manifest, compare::answers(&embedded, &real));
            if !is_active {
                self.embedded.remove(&folder, &embedded).await?;
                self.real.remove(&folder, &real).await?;
            }
        }
        Ok(())
    }

    /// The kinds that both servers have. A real server serves new definitions after a moment.
    async fn types(&self) -> Result<Types, Box<dyn Error>> {
        let wanted = self.embedded.types().await?;
        for _ in 0..300 {
            let real = self.real.types().await?;
            if wanted.missing_in(&real) == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(wanted)
    }
}
