//! Lists of built-in kinds of which two managers own different items.

use super::*;

/// Applies `one` and `two` as two managers, then `one` without the list, and forces `two` without it.
async fn shared(site: &Site, collection: &str, one: Value, two: Value, less: Value) {
    site.keep_managers();
    let named = |mut object: Value| {
        object["metadata"]["name"] = "{ns}".into();
        object
    };
    let path = format!("{collection}/{{ns}}");
    site.apply(&path, "one", named(one)).await;
    site.apply(&path, "two", named(two)).await;
    site.apply(&path, "one", named(less.clone())).await;
    site.force(&path, "two", named(less)).await;
    site.quietly("DELETE", &path, &[], Value::Null).await;
}

/// An object whose member at the pointer is that list.
fn with_list(base: &Value, pointer: &str, list: &Value) -> Value {
    let mut object = base.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = list.clone();
    object
}

/// One case: its name, the path of the collection, an object, the pointer of a list, and the items of both managers.
macro_rules! list {
    ($name:ident, $path:expr, $base:tt, $pointer:literal, $one:tt, $two:tt) => {
        #[test]
        fn $name() {
            contract!(async |site: &Site| {
                let base = json!($base);
                let [one, two] = [json!($one), json!($two)].map(|list| with_list(&base, $pointer, &list));
                shared(site, $path, one, two, base).await;
            });
        }
    };
}

list!(ports_of_a_service, SERVICES,
    { "apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": { "clusterIP": "None" } }, "/spec/ports",
    [{ "name": "a", "port": 80, "protocol": "TCP" }, { "name": "b", "port": 80, "protocol": "UDP" }],
    [{ "name": "b", "port": 80, "protocol": "UDP" }, { "name": "c", "port": 81 }]);
list!(environment_of_a_container, DEPLOYMENTS,
    { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }], "volumes": [{ "name": "v", "emptyDir": {} }] },
        },
    } },
    "/spec/template/spec/containers/0/env",
    [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
    [{ "name": "B", "value": "2" }]);
list!(mounts_of_a_container, DEPLOYMENTS,
    { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }], "volumes": [{ "name": "v", "emptyDir": {} }] },
        },
    } },
    "/spec/template/spec/containers/0/volumeMounts",
    [{ "name": "v", "mountPath": "/a" }], [{ "name": "v", "mountPath": "/a" }]);
list!(host_aliases_of_a_pod, DEPLOYMENTS,
    { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }], "volumes": [{ "name": "v", "emptyDir": {} }] },
        },
    } },
    "/spec/template/spec/hostAliases",
    [{ "ip": "10.0.0.1", "hostnames": ["a"] }], [{ "ip": "10.0.0.1", "hostnames": ["a"] }]);
list!(pull_secrets_of_an_account, "/api/v1/namespaces/{ns}/serviceaccounts",
    { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {} }, "/imagePullSecrets",
    [{ "name": "a" }, { "name": "b" }], [{ "name": "b" }, { "name": "c" }]);
list!(secrets_of_an_account, "/api/v1/namespaces/{ns}/serviceaccounts",
    { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {} }, "/secrets",
    [{ "name": "a" }, { "name": "b" }], [{ "name": "b" }, { "name": "c" }]);
list!(spread_of_a_template, DEPLOYMENTS,
    { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
        },
    } },
    "/spec/template/spec/topologySpreadConstraints",
    [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {} }],
    [{ "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {} }]);
list!(tolerations_of_a_template, DEPLOYMENTS,
    { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": {
            "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
        },
    } },
    "/spec/template/spec/tolerations",
    [{ "key": "a", "operator": "Exists" }], [{ "key": "b", "operator": "Exists" }]);
list!(finalizers_of_a_config_map, MAPS,
    { "apiVersion": "v1", "kind": "ConfigMap", "metadata": {} }, "/metadata/finalizers",
    ["example.com/a", "example.com/b"], ["example.com/b", "example.com/c"]);
list!(owners_of_a_config_map, MAPS,
    { "apiVersion": "v1", "kind": "ConfigMap", "metadata": {} }, "/metadata/ownerReferences",
    [{ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "00000000-0000-0000-0000-000000000001" }],
    [{ "apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "00000000-0000-0000-0000-000000000002" }]);
list!(rules_of_a_role, "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
    { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {} }, "/rules",
    [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
    [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }]);
list!(hosts_of_an_ingress, "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses",
    { "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {}, "spec": {
        "defaultBackend": { "service": { "name": "s", "port": { "number": 80 } } },
    } },
    "/spec/tls",
    [{ "hosts": ["a.example.com"], "secretName": "a" }], [{ "hosts": ["b.example.com"], "secretName": "b" }]);
list!(match_conditions_of_a_policy, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {}, "spec": {
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["nothing.example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"],
        }] },
        "validations": [{ "expression": "true" }],
    } },
    "/spec/matchConditions",
    [{ "name": "a", "expression": "true" }, { "name": "b", "expression": "true" }],
    [{ "name": "b", "expression": "true" }, { "name": "c", "expression": "true" }]);
list!(variables_of_a_policy, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {}, "spec": {
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["nothing.example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"],
        }] },
        "validations": [{ "expression": "true" }],
    } },
    "/spec/variables",
    [{ "name": "a", "expression": "true" }], [{ "name": "b", "expression": "true" }]);
