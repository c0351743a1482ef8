//! The objects of `deploy/` for any cluster: definitions, accounts, roles and bindings. Applies objects to a cluster
//! and removes them.

use std::time::Duration;

use clock::Clock;
use judge::object::text;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use runtime::error::brief;
use serde_json::Value;

/// Errors of applying and removing the objects of `deploy/`.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// A file is not a list of objects.
    #[error("{file}: {}", source.without_snippet())]
    Syntax {
        /// The file.
        file: String,
        /// The cause.
        source: Box<serde_saphyr::Error>,
    },
    /// An object of the files lacks an expected part.
    #[error("{object} has no {part}")]
    NoPart {
        /// The object.
        object: &'static str,
        /// The missing part.
        part: &'static str,
    },
    /// The files lack an expected object.
    #[error("deploy/ has no {kind} {name}")]
    NoObject {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    },
    /// The kind is not one of the deployed kinds.
    #[error("{version} {kind} is not a deployed kind")]
    UnknownKind {
        /// Its API version.
        version: String,
        /// The kind.
        kind: String,
    },
    /// A constructed object cannot be serialized as JSON.
    #[error("cannot serialize a {kind} as JSON: {source}")]
    NoJson {
        /// Kind of the object.
        kind: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// A file has a value that is not a Kubernetes object.
    #[error("cannot apply {kind} {name}: {source}")]
    NoKubernetesObject {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The API server rejects the creation or change of an object.
    #[error("cannot apply {kind} {name}: {}", brief(source))]
    Apply {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The API server rejects the deletion of an object.
    #[error("cannot delete {kind} {name}: {}", brief(source))]
    Delete {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The existence of a deleted object cannot be checked.
    #[error("cannot read {kind} {name}: {}", brief(source))]
    Read {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// Deleted objects still exist.
    #[error("some deleted objects still exist after {GONE:?}")]
    NotGone,
}

/// The namespace in the files, which is also the prefix of the names of their cluster-wide objects.
pub const NAMESPACE: &str = "drydock";

/// The service account of mcm.
pub const MCM_ACCOUNT: &str = "machine-controller-manager";
/// The service account of a process that only checks the health of machines.
pub const HEALTH_CHECK_ACCOUNT: &str = "machine-health-check";
/// The service account of the example remediation controller.
pub const REMEDIATION_ACCOUNT: &str = "fakecloud-remediation";
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

/// Applied in worlds with health checks.
const HEALTH_CHECK_RBAC: (&str, &str) = (
    "deploy/rbac/machine-health-check.yaml",
    include_str!("../../../deploy/rbac/machine-health-check.yaml"),
);

/// Applied in worlds with the example remediation controller.
const REMEDIATION: (&str, &str) = (
    "deploy/rbac/fakecloud-remediation.yaml",
    include_str!("../../../deploy/rbac/fakecloud-remediation.yaml"),
);

/// How long a deleted object may continue to exist.
const GONE: Duration = Duration::from_secs(60);
/// The interval of checks for deleted objects.
const GONE_PROBE: Duration = Duration::from_millis(200);

/// The deployed kinds: group, version, kind, plural and whether they are namespaced.
const KINDS: [(&str, &str, &str, &str, bool); 14] = [
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "Service", "services", true),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false),
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

/// Accounts, roles and bindings of mcm and fakecloud for machines in `namespace`, and roles for users.
///
/// # Errors
/// When a file is not a list of objects, which a test excludes.
pub fn rbac(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let mut objects = Vec::new();
    for (file, content) in RBAC {
        objects.extend(read(file, content)?);
    }
    objects.iter_mut().for_each(|object| place(object, namespace));
    Ok(objects)
}

/// The account and role of the example remediation controller for machines in `namespace`.
///
/// # Errors
/// As [`rbac`].
pub fn remediation(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let (file, content) = REMEDIATION;
    let mut objects = read(file, content)?;
    // The definitions are objects of the world.
    objects.retain(|object| object["kind"] != "CustomResourceDefinition");
    objects.iter_mut().for_each(|object| place(object, namespace));
    Ok(objects)
}

/// The definition of MachineHealthCheck, and the account, roles and bindings of its controller for machines in `namespace`.
///
/// # Errors
/// As [`rbac`].
pub fn health_checks(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let definition = serde_json::to_value(mcm_api::crd::health_check()).map_err(|source| DeployError::NoJson {
        kind: "CustomResourceDefinition",
        source,
    })?;
    let (file, content) = HEALTH_CHECK_RBAC;
    let mut objects = read(file, content)?;
    objects.iter_mut().for_each(|object| place(object, namespace));
    objects.insert(0, definition);
    Ok(objects)
}

/// The part of [`rbac`] for a control cluster with a separate target cluster: mcm's access to machines.
///
/// # Errors
/// As [`rbac`].
pub fn control_rbac(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let mut objects = rbac(namespace)?;
    objects.retain(|object| is_for_machines(object, namespace) || is_account(object, MCM_ACCOUNT));
    Ok(objects)
}

/// The part of [`rbac`] for a target cluster whose machines are in another cluster.
///
/// # Errors
/// As [`rbac`].
pub fn target_rbac(namespace: &str) -> Result<Vec<Value>, DeployError> {
    let mut objects = rbac(namespace)?;
    objects.retain(|object| !is_for_machines(object, namespace));
    Ok(objects)
}

/// Whether an object is a role or a binding in the namespace of machines.
fn is_for_machines(object: &Value, namespace: &str) -> bool {
    let kind = text(object, "/kind");
    ["Role", "RoleBinding"].contains(&kind) && text(object, "/metadata/namespace") == namespace
}

fn is_account(object: &Value, name: &str) -> bool {
    text(object, "/kind") == "ServiceAccount" && text(object, "/metadata/name") == name
}

/// The objects of a YAML stream. Errors refer to it as `file`.
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

/// Moves an object of `deploy/` into another namespace: changes the namespaces of the object and of its subjects, and
/// the prefix in the names of cluster-wide objects, so that several runs in one cluster do not share them.
pub fn place(object: &mut Value, namespace: &str) {
    let rename = |name: &mut Value| {
        let own = name
            .as_str()
            .and_then(|name| name.strip_prefix(NAMESPACE)?.strip_prefix(':'));
        if let Some(own) = own {
            *name = format!("{namespace}:{own}").into();
        }
    };
    let set_namespace = |value: &mut Value| {
        if *value == NAMESPACE {
            *value = namespace.into();
        }
    };
    let is_namespace = object["kind"] == "Namespace";
    for pointer in ["/metadata/name", "/roleRef/name"] {
        if let Some(name) = object.pointer_mut(pointer) {
            rename(name);
            if is_namespace {
                set_namespace(name);
            }
        }
    }
    if let Some(own) = object.pointer_mut("/metadata/namespace") {
        set_namespace(own);
    }
    let subjects = object.pointer_mut("/subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if let Some(own) = subject.pointer_mut("/namespace") {
            set_namespace(own);
        }
    }
}

/// Translates the user name of a service account of [`NAMESPACE`] to another namespace. Returns other names unchanged.
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

/// A client for the kind and namespace of an object.
///
/// # Errors
/// When the kind is not a deployed kind.
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

/// Creates objects in order, or merges them into existing ones.
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

/// Deletes objects in reverse order and waits until they are deleted. Ignores absent objects.
///
/// # Errors
/// The first object that cannot be deleted. The other objects are deleted anyway.
pub async fn remove(client: &kube::Client, objects: &[Value], clock: &Clock) -> Result<(), DeployError> {
    let mut result = Ok(());
    for object in objects.iter().rev() {
        let removed = remove_one(client, object).await;
        result = result.and(removed);
    }
    let waiting = async {
        for object in objects.iter().rev() {
            while exists(client, object).await? {
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

async fn exists(client: &kube::Client, object: &Value) -> Result<bool, DeployError> {
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

    use serde_json::json;

    use super::*;

    #[test]
    fn definition_files_match_the_types() {
        for definition in mcm_api::crd::all() {
            let name = definition.metadata.name.clone().unwrap();
            let path = format!("{}/../../deploy/crds/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
            let written = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            let expected = serde_saphyr::to_string(&definition).unwrap();
            assert_eq!(
                written, expected,
                "{path} differs from the output of `mcm crds`: regenerate it"
            );
        }
    }

    #[test]
    fn every_definition_file_belongs_to_a_type() {
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
    fn runs_in_two_namespaces_share_no_objects() {
        let names = |namespace| -> BTreeSet<String> {
            let objects = rbac(namespace).unwrap();
            let name = |object: &Value| {
                let metadata = &object["metadata"];
                format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"])
            };
            objects.iter().map(name).collect()
        };
        let (first, second) = (names("one"), names("other"));
        assert!(first.len() > 10, "{first:?}");
        assert!(first.is_disjoint(&second), "{first:?}");
    }

    #[test]
    fn control_and_target_cluster_share_only_the_account_of_mcm() {
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
    fn every_binding_refers_to_an_existing_role_and_account() {
        let objects = rbac("some").unwrap();
        let exists = |kind: &Value, namespace: &Value, name: &Value| {
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
            assert!(exists(&role["kind"], namespace, &role["name"]), "{binding}");
            let subject = &binding["subjects"][0];
            assert_eq!(subject["namespace"], "some", "{binding}");
            assert!(
                exists(&subject["kind"], &subject["namespace"], &subject["name"]),
                "{binding}"
            );
        }
    }

    #[test]
    fn mcm_reads_and_renews_only_its_own_lease() {
        let objects = rbac("some").unwrap();
        let roles = objects.iter().filter(|object| {
            object["kind"].as_str().unwrap().ends_with("Role") && object["metadata"]["name"] == MCM_ACCOUNT
        });
        let rules = roles.flat_map(|role| role["rules"].as_array().unwrap());
        let leases: Vec<_> = rules.filter(|rule| rule["resources"] == json!(["leases"])).collect();
        let creates = |rule: &&&Value| rule["verbs"].as_array().unwrap().contains(&json!("create"));
        assert_eq!(leases.iter().filter(creates).count(), 1);
        for rule in leases {
            let names = match rule["verbs"] == json!(["create"]) {
                true => Value::Null,
                false => json!([MCM_ACCOUNT]),
            };
            assert_eq!(rule["resourceNames"], names, "{rule}");
        }
    }

    #[test]
    fn the_service_for_drivers_resolves_to_every_replica_of_mcm() {
        let read_file = |name: &str| {
            let path = format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"));
            read(name, &std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let find = |objects: Vec<Value>, kind: &str| objects.into_iter().find(|object| object["kind"] == kind).unwrap();
        let service = find(read_file("driver-registration.yaml"), "Service");
        let deployment = find(read_file("machine-controller-manager.yaml"), "Deployment");
        assert_eq!(service["spec"]["clusterIP"], "None");
        assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
        assert_eq!(
            service["spec"]["selector"],
            deployment["spec"]["selector"]["matchLabels"]
        );
        let port = &service["spec"]["ports"][0];
        assert_eq!(port["targetPort"], mcm_driver::registration::PORT);
        assert_eq!(port["port"], mcm_driver::registration::PORT);
    }
}
