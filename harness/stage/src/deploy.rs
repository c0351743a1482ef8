//! What `deploy/` has for any cluster: definitions, accounts, roles, bindings; and how objects get into a cluster and
//! out of it.

use std::time::Duration;

use clock::Clock;
use judge::object::text;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::Value;

/// Why the objects of `deploy/` are not in a cluster, or do not go from it.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// A file is no list of objects.
    #[error("{file}: {}", source.without_snippet())]
    Syntax {
        /// Which file.
        file: String,
        /// What is wrong with it.
        source: Box<serde_saphyr::Error>,
    },
    /// An object of the files has not the form that is expected.
    #[error("{object} has no {part}")]
    NoPart {
        /// The object.
        object: &'static str,
        /// What it should have.
        part: &'static str,
    },
    /// An object that the files should have is not there.
    #[error("deploy/ has no {kind} {name}")]
    NoObject {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// Objects of this kind are not deployed.
    #[error("{version} {kind} is no kind that is deployed")]
    UnknownKind {
        /// Its API version.
        version: String,
        /// The kind.
        kind: String,
    },
    /// An object that is built here has no JSON form.
    #[error("a {kind} has no JSON form: {source}")]
    NoJson {
        /// Its kind.
        kind: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// What a file has is no object of Kubernetes.
    #[error("cannot apply {kind} {name}: {source}")]
    NoKubernetesObject {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The API server does not create or change an object.
    #[error("cannot apply {kind} {name}: {source}")]
    Apply {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The API server does not delete an object.
    #[error("cannot delete {kind} {name}: {source}")]
    Delete {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// Whether an object is gone cannot be read.
    #[error("cannot read {kind} {name}: {source}")]
    Read {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// Deleted objects are still there.
    #[error("not everything that was deleted is gone after {GONE:?}")]
    NotGone,
}

/// The namespace that the files name, and the beginning of the names of their cluster-wide objects.
pub const NAMESPACE: &str = "drydock";

/// The service account of mcm.
pub const MCM_ACCOUNT: &str = "machine-controller-manager";
/// The service account of fakecloud.
pub const FAKECLOUD_ACCOUNT: &str = "fakecloud";

const RBAC: [(&str, &str); 3] = [
    (
        "deploy/rbac/machine-controller-manager.yaml",
        include_str!("../../../deploy/rbac/machine-controller-manager.yaml"),
    ),
    (
        "deploy/rbac/fakecloud.yaml",
        include_str!("../../../deploy/rbac/fakecloud.yaml"),
    ),
    (
        "deploy/rbac/preservation.yaml",
        include_str!("../../../deploy/rbac/preservation.yaml"),
    ),
];

/// How long an object may take to be gone.
const GONE: Duration = Duration::from_secs(60);
/// How often that is looked at.
const GONE_PROBE: Duration = Duration::from_millis(200);

/// Group, version, plural and whether a namespace holds them, of the kinds that are deployed.
const KINDS: [(&str, &str, &str, &str, bool); 13] = [
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "Service", "services", true),
    ("apps", "v1", "Deployment", "deployments", true),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    ),
];

/// Accounts, roles and bindings of mcm and fakecloud for machines in `namespace`, and roles for people.
///
/// # Errors
/// When a file is no list of objects, which a test excludes.
pub fn rbac(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let mut objects = Vec::new();
    for (file, content) in RBAC {
        objects.extend(read(file, content)?);
    }
    objects.iter_mut().for_each(|object| place(object, namespace));
    Ok(objects)
}

/// Those of [`rbac`] that a control cluster has whose target is another: mcm's, for machines.
///
/// # Errors
/// As [`rbac`].
pub fn control_rbac(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let mut objects = rbac(namespace)?;
    objects.retain(|object| is_about_machines(object, namespace) || is_account(object, MCM_ACCOUNT));
    Ok(objects)
}

/// Those of [`rbac`] that a target cluster has whose machines are in another.
///
/// # Errors
/// As [`rbac`].
pub fn target_rbac(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let mut objects = rbac(namespace)?;
    objects.retain(|object| !is_about_machines(object, namespace));
    Ok(objects)
}

/// Whether a role or its binding is about machines and what stands beside them.
fn is_about_machines(object: &Value, namespace: &str) -> bool {
    let kind = text(object, "/kind");
    ["Role", "RoleBinding"].contains(&kind) && text(object, "/metadata/namespace") == namespace
}

fn is_account(object: &Value, name: &str) -> bool {
    text(object, "/kind") == "ServiceAccount" && text(object, "/metadata/name") == name
}

/// The objects of a YAML stream; `file` names it in errors.
///
/// # Errors
/// [`DeployError::Syntax`].
pub fn read(file: &str, content: &str) -> Result<Vec<Value>, DeployError> {
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(content);
    documents.map_err(|source| DeployError::Syntax {
        file: file.to_owned(),
        source: Box::new(source),
    })
}

/// Moves an object of `deploy/` into another namespace: its own, those of its subjects, and in the names of objects
/// that several runs in one cluster would share.
pub fn place(object: &mut Value, namespace: &str) {
    let rename = |name: &mut Value| {
        let own = name
            .as_str()
            .and_then(|name| name.strip_prefix(NAMESPACE)?.strip_prefix(':'));
        if let Some(own) = own {
            *name = format!("{namespace}:{own}").into();
        }
    };
    let lives_in = |value: &mut Value| {
        if *value == NAMESPACE {
            *value = namespace.into();
        }
    };
    let is_namespace = object["kind"] == "Namespace";
    for pointer in ["/metadata/name", "/roleRef/name"] {
        if let Some(name) = object.pointer_mut(pointer) {
            rename(name);
            if is_namespace {
                lives_in(name);
            }
        }
    }
    if let Some(own) = object.pointer_mut("/metadata/namespace") {
        lives_in(own);
    }
    let subjects = object.pointer_mut("/subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if let Some(own) = subject.pointer_mut("/namespace") {
            lives_in(own);
        }
    }
}

/// The user name of a service account of the files' namespace, as it is in another one; other names are what they are.
pub fn account_in(user: &str, namespace: &str) -> String {
    let account = |user: &str| {
        user.strip_prefix("system:serviceaccount:")?
            .strip_prefix(NAMESPACE)?
            .strip_prefix(':')
            .map(str::to_owned)
    };
    account(user).map_or_else(
        || user.to_owned(),
        |name| format!("system:serviceaccount:{namespace}:{name}"),
    )
}

/// A client for the kind of an object, in the namespace that it names.
///
/// # Errors
/// When it is of a kind that is not deployed.
pub fn api(client: &kube::Client, object: &Value) -> Result<Api<DynamicObject>, DeployError> {
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let known = KINDS.iter().find(|(group, known_version, known_kind, _, _)| {
        let api_version = if group.is_empty() {
            (*known_version).to_owned()
        } else {
            format!("{group}/{known_version}")
        };
        kind == *known_kind && version == api_version
    });
    let Some((group, known_version, _, plural, namespaced)) = known else {
        return Err(DeployError::UnknownKind {
            version: version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let resource = ApiResource {
        group: (*group).to_owned(),
        version: (*known_version).to_owned(),
        api_version: version.to_owned(),
        kind: kind.to_owned(),
        plural: (*plural).to_owned(),
    };
    Ok(if *namespaced {
        Api::namespaced_with(client.clone(), text(object, "/metadata/namespace"), &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    })
}

/// Creates objects in order, or merges them into those that are there.
///
/// # Errors
/// The first object that cannot be applied.
pub async fn apply(client: &kube::Client, objects: &[Value]) -> Result<(), DeployError> {
    for object in objects {
        let (kind, name) = kind_and_name(object);
        let cannot = |error| DeployError::Apply {
            kind: kind.to_owned(),
            name: name.to_owned(),
            source: Box::new(error),
        };
        let api = api(client, object)?;
        let body: DynamicObject =
            serde_json::from_value(object.clone()).map_err(|source| DeployError::NoKubernetesObject {
                kind: kind.to_owned(),
                name: name.to_owned(),
                source,
            })?;
        match api.create(&PostParams::default(), &body).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(object)).await;
                patched.map_err(cannot)?;
            }
            Err(error) => return Err(cannot(error)),
        }
    }
    Ok(())
}

/// Deletes objects, the last one first, and waits until they are gone; those that are not there are no error.
///
/// # Errors
/// The first object that stays; the others are removed all the same.
pub async fn remove(client: &kube::Client, objects: &[Value], clock: &Clock) -> Result<(), DeployError> {
    let mut result = Ok(());
    for object in objects.iter().rev() {
        let removed = remove_one(client, object).await;
        result = result.and(removed);
    }
    let waiting = async {
        for object in objects.iter().rev() {
            while is_there(client, object).await? {
                clock.sleep(GONE_PROBE).await;
            }
        }
        Ok::<(), DeployError>(())
    };
    let gone = tokio::time::timeout(GONE, waiting).await;
    result.and(gone.unwrap_or(Err(DeployError::NotGone)))
}

fn kind_and_name(object: &Value) -> (&str, &str) {
    (text(object, "/kind"), text(object, "/metadata/name"))
}

async fn remove_one(client: &kube::Client, object: &Value) -> Result<(), DeployError> {
    let (kind, name) = kind_and_name(object);
    match api(client, object)?.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(DeployError::Delete {
            kind: kind.to_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        }),
    }
}

async fn is_there(client: &kube::Client, object: &Value) -> Result<bool, DeployError> {
    let (kind, name) = kind_and_name(object);
    let found = api(client, object)?.get_metadata_opt(name).await;
    found.map(|found| found.is_some()).map_err(|source| DeployError::Read {
        kind: kind.to_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_files_of_definitions_are_what_the_types_say() {
        for definition in mcm_api::crd::all() {
            let name = definition.metadata.name.clone().unwrap();
            let path = format!("{}/../../deploy/crds/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
            let written = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            let expected = serde_saphyr::to_string(&definition).unwrap();
            assert_eq!(written, expected, "{path} is not what `mcm crds` prints: write it anew");
        }
    }

    #[test]
    fn no_definition_has_a_file_too_many() {
        let folder = std::fs::read_dir(format!("{}/../../deploy/crds", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let files: BTreeSet<String> = folder
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let expected = mcm_api::crd::all()
            .into_iter()
            .filter_map(|definition| definition.metadata.name);
        let expected: BTreeSet<String> = expected
            .map(|name| format!("{name}.yaml"))
            .chain(["kustomization.yaml".to_owned()])
            .collect();
        assert!(files.is_subset(&expected), "{files:?}");
    }

    #[test]
    fn two_namespaces_share_no_object() {
        let names = |namespace| -> BTreeSet<String> {
            let objects = rbac(namespace).unwrap();
            let name = |object: &Value| {
                let metadata = &object["metadata"];
                format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"])
            };
            objects.iter().map(name).collect()
        };
        let (one, other) = (names("one"), names("other"));
        assert!(one.len() > 10, "{one:?}");
        assert!(one.is_disjoint(&other), "{one:?}");
    }

    #[test]
    fn two_clusters_share_nothing_but_the_account_of_mcm() {
        let names = |objects: Vec<Value>| -> BTreeSet<String> {
            let name = |object: &Value| {
                let metadata = &object["metadata"];
                format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"])
            };
            objects.iter().map(name).collect()
        };
        let (control, target) = (
            names(control_rbac("some").unwrap()),
            names(target_rbac("some").unwrap()),
        );
        let shared: Vec<&String> = control.intersection(&target).collect();
        assert_eq!(shared, [r#""ServiceAccount" "some" "machine-controller-manager""#]);
        assert_eq!(control.union(&target).count(), names(rbac("some").unwrap()).len());
        assert_eq!(control.len(), 4, "{control:?}");
    }

    #[test]
    fn every_binding_names_a_role_and_an_account_that_are_there() {
        let objects = rbac("some").unwrap();
        let there = |kind: &Value, namespace: &Value, name: &Value| {
            objects.iter().any(|object| {
                object["kind"] == *kind
                    && object["metadata"]["name"] == *name
                    && object["metadata"]["namespace"] == *namespace
            })
        };
        let bindings: Vec<&Value> = objects
            .iter()
            .filter(|object| object.get("roleRef").is_some())
            .collect();
        assert!(bindings.len() >= 5, "{bindings:?}");
        for binding in bindings {
            let role = &binding["roleRef"];
            let namespace = &binding["metadata"]["namespace"];
            assert!(there(&role["kind"], namespace, &role["name"]), "{binding}");
            let subject = &binding["subjects"][0];
            assert_eq!(subject["namespace"], "some", "{binding}");
            assert!(
                there(&subject["kind"], &subject["namespace"], &subject["name"]),
                "{binding}"
            );
        }
    }
}
