//! Lists: pages, selectors, revisions.

use serde_json::{Value, json};

use super::contract;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

async fn five(site: &super::Site) {
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "2"), ("e", "1")] {
        site.config_map(name, value).await;
    }
}

/// The names, whether there is a continue token, and the number of remaining objects.
async fn names(site: &super::Site, path: &str) -> super::site::TestResponse {
    let answer = site.quietly("GET", path, &[], Value::Null).await;
    site.note(&format!("GET {}", path.split("&continue=").next().unwrap_or(path)));
    let names: Vec<&Value> = answer.body["items"]
        .as_array()
        .map(|items| items.iter().map(|item| &item["metadata"]["name"]).collect())
        .unwrap_or_default();
    let metadata = &answer.body["metadata"];
    let more = metadata["continue"].as_str().is_some_and(|token| !token.is_empty());
    let text = json!({
        "code": answer.code, "message": answer.body["message"], "names": names, "more": more,
        "remaining": metadata["remainingItemCount"],
    });
    site.note(&text.to_string());
    answer
}

fn token(answer: &super::site::TestResponse) -> String {
    answer.body["metadata"]["continue"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn all_pages_of_a_list_have_one_revision() {
    contract!(async |site: &super::Site| {
        five(site).await;
        let selected = format!("{MAPS}?labelSelector=value&limit=2");
        let first = names(site, &selected).await;
        site.config_map("bb", "9").await;
        let second = names(site, &format!("{selected}&continue={}", token(&first))).await;
        let last = names(site, &format!("{selected}&continue={}", token(&second))).await;
        let revision = |answer: &super::site::TestResponse| answer.revision();
        site.note(&format!("one revision: {}", revision(&first) == revision(&last)));
    });
}

#[test]
fn a_page_has_the_remaining_count_without_selectors() {
    contract!(async |site: &super::Site| {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
        for name in ["a", "b", "c"] {
            site.step("POST", leases, json!({ "metadata": { "name": name } })).await;
        }
        let first = names(site, &format!("{leases}?limit=2")).await;
        names(site, &format!("{leases}?limit=2&continue={}", token(&first))).await;
        names(site, &format!("{leases}?limit=3")).await;
        names(site, &format!("{leases}?limit=2&resourceVersion=0")).await;
    });
}

#[test]
fn an_invalid_token_is_rejected() {
    contract!(async |site: &super::Site| {
        for text in [
            "x",
            "e30",
            "eyJ2IjoieCJ9",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
        ] {
            site.get(&format!("{MAPS}?limit=2&continue={text}")).await;
        }
        site.get(&format!("{MAPS}?limit=2&continue=x&resourceVersion=5")).await;
    });
}

#[test]
fn lists_select_by_labels() {
    contract!(async |site: &super::Site| {
        five(site).await;
        for selector in [
            "value=1",
            "value==1",
            "value!=1,value",
            "value in (1,3)",
            "value notin (1,3),value",
            "!value,x",
            "value",
            "value>1",
            "value<3",
            "value=1,value=2",
        ] {
            let encoded = selector
                .replace(' ', "%20")
                .replace('>', "%3E")
                .replace('<', "%3C")
                .replace('=', "%3D");
            names(site, &format!("{MAPS}?labelSelector={encoded}")).await;
        }
    });
}

#[test]
fn invalid_selectors_are_rejected() {
    contract!(async |site: &super::Site| {
        for selector in [
            "a%3D%3D%3Db",
            "a%20in%20b",
            "a%20in%20()",
            "-x",
            "a%3Db%20c",
            ",",
            "a%3Exyz",
            "a%20foo%20(b)",
        ] {
            site.get(&format!("{MAPS}?labelSelector={selector}")).await;
        }
        for selector in [
            "data.key%3D1",
            "metadata.name",
            "metadata.name%3Da%5Cb",
            "metadata.labels%3Da",
        ] {
            site.get(&format!("{MAPS}?fieldSelector={selector}")).await;
        }
    });
}

#[test]
fn lists_select_by_fields() {
    contract!(async |site: &super::Site| {
        five(site).await;
        names(site, &format!("{MAPS}?fieldSelector=metadata.name%3Da")).await;
        names(
            site,
            &format!("{MAPS}?labelSelector=value&fieldSelector=metadata.name!%3Da,metadata.namespace%3D{{ns}}"),
        )
        .await;
        for (index, node) in ["n1", "n2", ""].into_iter().enumerate() {
            let pod = json!({
                "metadata": { "name": format!("p{index}") },
                "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
            });
            site.step("POST", "/api/v1/namespaces/{ns}/pods", pod).await;
        }
        for selector in [
            "spec.nodeName%3Dn1",
            "spec.nodeName%3D",
            "spec.nodeName!%3Dn1",
            "status.phase%3DPending",
            "spec.restartPolicy%3DNever",
            "spec.schedulerName%3Ddefault-scheduler",
        ] {
            names(
                site,
                &format!("/api/v1/namespaces/{{ns}}/pods?fieldSelector={selector}"),
            )
            .await;
        }
        for node in ["n1", "n2"] {
            site.step(
                "POST",
                "/api/v1/nodes",
                json!({ "metadata": { "name": format!("{node}.{{ns}}"), "labels": { "c": "{ns}" } }, "spec": { "unschedulable": node == "n1" } }),
            )
            .await;
        }
        for selector in ["spec.unschedulable%3Dtrue", "spec.unschedulable%3Dfalse"] {
            names(
                site,
                &format!("/api/v1/nodes?labelSelector=c%3D{{ns}}&fieldSelector={selector}"),
            )
            .await;
        }
    });
}

#[test]
fn a_list_at_a_revision() {
    contract!(async |site: &super::Site| {
        let first = site.config_map("a", "1").await.revision();
        site.config_map("b", "1").await;
        let base = format!("{MAPS}?labelSelector=value");
        let list = async |query: String| {
            let answer = site
                .quietly(
                    "GET",
                    &format!("{base}{}", query.replace("R1", &first)),
                    &[],
                    Value::Null,
                )
                .await;
            let count = answer.body["items"].as_array().map(Vec::len);
            site.note(&format!(
                "{query}: {} {count:?} {}",
                answer.code, answer.body["message"]
            ));
        };
        for query in [
            "",
            "&resourceVersion=0",
            "&resourceVersion=R1&resourceVersionMatch=Exact",
            "&resourceVersion=R1&resourceVersionMatch=NotOlderThan",
            "&resourceVersion=R1",
            "&resourceVersion=R1&limit=5",
        ] {
            list(query.to_owned()).await;
        }
    });
}

#[test]
fn invalid_list_options_are_rejected() {
    contract!(async |site: &super::Site| {
        for query in [
            "resourceVersionMatch=Exact",
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersion=5&resourceVersionMatch=Other",
            "resourceVersion=x",
            "resourceVersion=5&resourceVersionMatch=Exact&limit=1&continue=x",
            "sendInitialEvents=true",
            "limit=x",
            "limit=-1",
            "timeoutSeconds=x",
        ] {
            site.get(&format!("{MAPS}?{query}")).await;
        }
    });
}

#[test]
fn a_list_at_a_future_revision_times_out() {
    contract!(async |site: &super::Site| {
        let answer = site
            .quietly("GET", &format!("{MAPS}?resourceVersion=99999999999"), &[], Value::Null)
            .await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        site.note(&format!(
            "{} {} {}",
            answer.code,
            answer.body["reason"],
            message.split("current").next().unwrap_or_default()
        ));
        site.note(&answer.body["details"].to_string());
    });
}

#[test]
fn lists_name_their_kind_and_the_empty_one_has_items() {
    contract!(async |site: &super::Site| {
        site.get("/api/v1/namespaces/{ns}/secrets").await;
        site.get("/apis/apps/v1/namespaces/{ns}/deployments").await;
        site.get("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets").await;
        site.get("/api/v1/namespaces/missing/secrets").await;
    });
}
