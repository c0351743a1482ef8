//! Conflicts between managers.

use super::*;

#[test]
fn a_configuration_creates_an_object() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        site.apply(&path, "one", map(json!({ "k": "1" }))).await;
        site.apply(&path, "one", map(json!({ "k": "1" }))).await;
        site.apply(&path, "one", map(json!({ "k": "2" }))).await;
    });
}

#[test]
fn managers_can_share_a_field() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        site.step(
            "POST",
            &format!("{MAPS}?fieldManager=creator"),
            map(json!({ "k": "1" })),
        )
        .await;
        site.apply(&path, "one", map(json!({ "k": "1" }))).await;
        site.apply(&path, "two", map(json!({ "k": "1", "l": "1" }))).await;
        site.apply(&path, "one", map(json!({ "k": "2" }))).await;
        site.apply(&path, "one", map(json!({ "l": "2" }))).await;
    });
}

#[test]
fn a_conflict_names_the_managers_and_the_fields() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{DEPLOYMENTS}/a");
        let containers = json!([{ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }] }]);
        site.step(
            "POST",
            &format!("{DEPLOYMENTS}?fieldManager=creator"),
            with_containers(containers),
        )
        .await;
        site.apply(&path, "one", deployment(json!({ "replicas": 3 }))).await;
        let template =
            |image: &str| json!({ "template": { "spec": { "containers": [{ "name": "c", "image": image }] } } });
        site.apply(&path, "one", deployment(template("other"))).await;
        site.force(&path, "one", deployment(template("other"))).await;
        site.apply(&path, "two", deployment(template("third"))).await;
        let mut both = deployment(template("third"));
        both["spec"]["replicas"] = 5.into();
        both["spec"]["paused"] = true.into();
        site.apply(&path, "two", both.clone()).await;
        site.merge(
            &format!("{path}?fieldManager=scaler"),
            json!({ "spec": { "replicas": 7 } }),
        )
        .await;
        site.apply(&path, "two", both.clone()).await;
        site.force(&path, "two", both).await;
    });
}

#[test]
fn a_forced_configuration_takes_the_fields_of_updates() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        site.apply(&path, "one", map(json!({ "k": "1", "l": "1" }))).await;
        site.merge(&format!("{path}?fieldManager=patcher"), json!({ "data": { "k": "2" } }))
            .await;
        site.apply(&path, "one", map(json!({ "k": "3", "l": "1" }))).await;
        site.force(&path, "one", map(json!({ "k": "3", "l": "1" }))).await;
        site.merge(
            &format!("{path}?fieldManager=patcher"),
            json!({ "data": { "l": null } }),
        )
        .await;
        site.apply(&path, "one", map(json!({ "k": "3", "l": "1" }))).await;
    });
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        let last = "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"1\",\"l\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"a\"}}\n";
        let mut object = map(json!({ "k": "1", "l": "1" }));
        object["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": last });
        site.step(
            "POST",
            &format!("{MAPS}?fieldManager=kubectl-client-side-apply"),
            object,
        )
        .await;
        site.apply(&path, "other", map(json!({ "k": "2" }))).await;
        site.merge(&format!("{path}?fieldManager=patcher"), json!({ "data": { "l": "5" } }))
            .await;
        site.apply(&path, "kubectl", map(json!({ "k": "2", "l": "2" }))).await;
        site.apply(&path, "kubectl", map(json!({ "k": "2" }))).await;
    });
}

#[test]
fn a_dry_run_shows_the_result() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        site.apply(&format!("{path}?dryRun=All"), "one", map(json!({ "k": "1" })))
            .await;
        site.get(&path).await;
        site.apply(&path, "one", map(json!({ "k": "1" }))).await;
        site.apply(&format!("{path}?dryRun=All"), "two", map(json!({ "k": "2" })))
            .await;
        site.force(&format!("{path}?dryRun=All"), "two", map(json!({ "k": "2" })))
            .await;
        site.get(&path).await;
    });
}

#[test]
fn an_applied_revision_is_a_precondition() {
    contract!(async |site: &Site| {
        let path = format!("{MAPS}/a");
        let created = site.apply(&path, "one", map(json!({ "k": "1" }))).await;
        let mut newer = map(json!({ "k": "2" }));
        newer["metadata"]["resourceVersion"] = created.revision().into();
        site.apply(&path, "one", newer.clone()).await;
        newer["data"]["k"] = "3".into();
        site.apply(&path, "one", newer).await;
        let mut other = map(json!({ "k": "2" }));
        other["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111".into();
        site.apply(&path, "one", other.clone()).await;
        other["metadata"]["name"] = "b".into();
        site.apply(&format!("{MAPS}/b"), "one", other).await;
    });
}
