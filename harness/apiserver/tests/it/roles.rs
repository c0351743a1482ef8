//! Aggregated roles, service accounts of pods, and clients with tokens: behavior for which a real server needs
//! controllers or other settings.

use apiserver::{Authorization, Identity, Options, Server};
use clock::{Clock, Seed};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

fn options() -> Options {
    let mut options = Options::new(Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()), Seed::new(7));
    options.authorization = Authorization::Rbac;
    options
}

fn admin(options: Options) -> (Server, Client) {
    let server = Server::new(options).unwrap();
    let client = Client::new(server.service(Identity::admin()), "default");
    (server, client)
}

fn role(name: &str, label: &str, resource: &str) -> ClusterRole {
    let labels = json!({ label: "true" });
    let rules = json!([{ "verbs": ["get"], "apiGroups": ["example.com"], "resources": [resource] }]);
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "rules": rules })).unwrap()
}

async fn resources(roles: &Api<ClusterRole>, name: &str) -> Vec<String> {
    let rules = roles.get(name).await.unwrap().rules.unwrap_or_default();
    let own = rules
        .into_iter()
        .filter(|rule| rule.api_groups == Some(vec!["example.com".to_owned()]));
    own.flat_map(|rule| rule.resources.unwrap_or_default()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_role_aggregates_labelled_roles() {
    let (_server, client) = admin(options());
    let roles: Api<ClusterRole> = Api::all(client);
    let post = PostParams::default();
    let gathering = json!({
        "metadata": { "name": "all" },
        "aggregationRule": { "clusterRoleSelectors": [
            { "matchLabels": { "one": "true" } }, { "matchExpressions": [{ "key": "two", "operator": "Exists" }] },
        ] },
    });
    roles.create(&post, &role("b", "one", "bees")).await.unwrap();
    roles
        .create(&post, &serde_json::from_value(gathering).unwrap())
        .await
        .unwrap();
    assert_eq!(resources(&roles, "all").await, ["bees"]);
    roles.create(&post, &role("c", "two", "cats")).await.unwrap();
    roles.create(&post, &role("a", "one", "ants")).await.unwrap();
    assert_eq!(resources(&roles, "all").await, ["ants", "bees", "cats"]);
    let patch = json!({ "metadata": { "labels": { "one": null } } });
    roles
        .patch("b", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(resources(&roles, "all").await, ["ants", "cats"]);
    roles.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(resources(&roles, "all").await, ["cats"]);
    let patch = json!({ "rules": [] });
    roles
        .patch("all", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(resources(&roles, "all").await, ["cats"]);
}

#[tokio::test(start_paused = true)]
async fn roles_labelled_for_view_are_aggregated_to_edit_and_admin() {
    let (_server, client) = admin(options());
    let roles: Api<ClusterRole> = Api::all(client);
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    roles
        .create(&PostParams::default(), &role("machines", label, "machines"))
        .await
        .unwrap();
    for name in ["view", "edit", "admin"] {
        assert_eq!(resources(&roles, name).await, ["machines"], "{name}");
    }
    roles.delete("machines", &DeleteParams::default()).await.unwrap();
    for name in ["view", "edit", "admin"] {
        assert!(resources(&roles, name).await.is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_in_process_client_has_the_identity_of_its_service_account() {
    let (server, _) = admin(options());
    let robot = Client::new(server.service(Identity::service_account("default", "robot")), "default");
    let refused = Api::<Node>::all(robot).list(&ListParams::default()).await.unwrap_err();
    let expected = "nodes is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"nodes\" \
                    in API group \"\" at the cluster scope";
    assert!(refused.to_string().contains(expected), "{refused}");
}

fn pod(account: Option<&str>) -> Pod {
    let mut spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    if let Some(account) = account {
        spec["serviceAccountName"] = account.into();
    }
    serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_admission_option_gives_pods_an_account_and_a_token() {
    let mut options = options();
    options.service_account_admission = true;
    let (_server, client) = admin(options);
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let refused = pods
        .create(&PostParams::default(), &pod(Some("none")))
        .await
        .unwrap_err();
    let expected = "pods \"p\" is forbidden: error looking up service account default/none: \
                    serviceaccount \"none\" not found";
    assert!(refused.to_string().contains(expected), "{refused}");
    let created = pods.create(&PostParams::default(), &pod(None)).await.unwrap();
    let spec = serde_json::to_value(created.spec.unwrap()).unwrap();
    assert_eq!(spec["serviceAccountName"], "default");
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-"), "{volume}");
    let token = &spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!(token, &json!({ "expirationSeconds": 3607, "path": "token" }));
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
}

#[tokio::test(start_paused = true)]
async fn an_account_can_disable_token_mounts() {
    let mut options = options();
    options.service_account_admission = true;
    let (_server, client) = admin(options);
    let account = json!({
        "metadata": { "name": "quiet" }, "automountServiceAccountToken": false, "imagePullSecrets": [{ "name": "s" }],
    });
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    accounts
        .create(&PostParams::default(), &serde_json::from_value(account).unwrap())
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    let created = pods.create(&PostParams::default(), &pod(Some("quiet"))).await.unwrap();
    let spec = serde_json::to_value(created.spec.unwrap()).unwrap();
    assert_eq!(spec.get("volumes").unwrap_or(&Value::Null), &Value::Null);
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "s" }]));
}
