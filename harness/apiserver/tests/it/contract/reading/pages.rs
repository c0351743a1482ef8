//! Pages: what a continue token carries, and what the query of the next page may change.

use serde_json::{Value, json};

use super::super::definitions::version;
use super::super::site::{Site, WIDGETS};
use super::{MAPS, contract, page, token};

async fn four(site: &Site) {
    for name in ["a", "b", "c", "d"] {
        site.config_map(name, "1").await;
    }
}

#[test]
fn the_next_page_can_have_another_size() {
    contract!(async |site: &Site| {
        four(site).await;
        let list = format!("{MAPS}?labelSelector=value");
        let first = page(site, "one", &format!("{list}&limit=1")).await;
        let second = page(site, "two", &format!("{list}&limit=2&continue={}", token(&first))).await;
        page(site, "the rest", &format!("{list}&continue={}", token(&second))).await;
        page(site, "all but one", &format!("{list}&continue={}", token(&first))).await;
        page(site, "zero", &format!("{list}&limit=0&continue={}", token(&first))).await;
    });
}

#[test]
fn the_next_page_can_have_another_selector() {
    contract!(async |site: &Site| {
        for (name, value) in [("a", "1"), ("b", "2"), ("c", "1"), ("d", "2")] {
            site.config_map(name, value).await;
        }
        let first = page(site, "first", &format!("{MAPS}?labelSelector=value%3D1&limit=1")).await;
        let rest = format!("{MAPS}?labelSelector=value%3D2&limit=1&continue={}", token(&first));
        let second = page(site, "others", &rest).await;
        let path = format!("{MAPS}?fieldSelector=metadata.name%3Dd&continue={}", token(&second));
        page(site, "by name", &path).await;
    });
}

#[test]
fn a_page_does_not_show_later_writes() {
    contract!(async |site: &Site| {
        four(site).await;
        let list = format!("{MAPS}?labelSelector=value&limit=2");
        let first = page(site, "first", &list).await;
        site.step("DELETE", &format!("{MAPS}/c"), Value::Null).await;
        site.step("DELETE", &format!("{MAPS}/a"), Value::Null).await;
        site.config_map("e", "1").await;
        let second = page(site, "second", &format!("{list}&continue={}", token(&first))).await;
        site.note(&format!("one revision: {}", first.revision() == second.revision()));
        page(site, "again", &list).await;
    });
}

#[test]
fn a_page_that_holds_the_last_object_has_no_token() {
    contract!(async |site: &Site| {
        four(site).await;
        for limit in [3, 4, 5] {
            let path = format!("{MAPS}?labelSelector=value&limit={limit}");
            page(site, &format!("limit {limit}"), &path).await;
        }
        let path = format!("{MAPS}?labelSelector=value&fieldSelector=metadata.name%3Da&limit=1");
        page(site, "one of one", &path).await;
    });
}

#[test]
fn a_token_stays_usable() {
    contract!(async |site: &Site| {
        four(site).await;
        let list = format!("{MAPS}?labelSelector=value&limit=2");
        let first = page(site, "first", &list).await;
        for attempt in ["once", "twice"] {
            page(site, attempt, &format!("{list}&continue={}", token(&first))).await;
        }
    });
}

#[test]
fn a_token_excludes_other_revisions() {
    contract!(async |site: &Site| {
        four(site).await;
        let list = format!("{MAPS}?labelSelector=value&limit=2");
        let first = page(site, "first", &list).await;
        let revision = first.revision();
        for query in [
            "resourceVersion=0".to_owned(),
            format!("resourceVersion={revision}"),
            format!("resourceVersion={revision}&resourceVersionMatch=Exact"),
            format!("resourceVersion={revision}&resourceVersionMatch=NotOlderThan"),
            "resourceVersionMatch=NotOlderThan".to_owned(),
        ] {
            let path = format!("{list}&{query}&continue={}", token(&first));
            page(site, &query.replace(&revision, "R"), &path).await;
        }
    });
}

#[test]
fn pages_at_a_revision_stay_there() {
    contract!(async |site: &Site| {
        four(site).await;
        let revision = site.config_map("e", "1").await.revision();
        site.step("DELETE", &format!("{MAPS}/b"), Value::Null).await;
        let list = format!("{MAPS}?labelSelector=value&limit=3");
        let exact = format!("{list}&resourceVersion={revision}&resourceVersionMatch=Exact");
        let first = page(site, "first", &exact).await;
        site.note(&format!("the requested revision: {}", first.revision() == revision));
        let second = page(site, "second", &format!("{list}&continue={}", token(&first))).await;
        site.note(&format!("the same revision: {}", second.revision() == revision));
    });
}

#[test]
fn pages_of_custom_resources() {
    contract!(async |site: &Site| {
        site.define(version(json!({ "type": "object" }))).await;
        for name in ["a", "b", "c"] {
            let widget = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name } });
            site.step("POST", WIDGETS, widget).await;
        }
        let first = page(site, "first", &format!("{WIDGETS}?limit=2")).await;
        page(site, "second", &format!("{WIDGETS}?limit=2&continue={}", token(&first))).await;
        page(site, "everywhere", "/apis/{group}/v1/widgets?limit=2").await;
    });
}

#[test]
fn pages_of_metadata_and_tables() {
    contract!(async |site: &Site| {
        four(site).await;
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let first = site
            .get_as(&format!("{MAPS}?labelSelector=value&limit=3"), metadata)
            .await;
        let rest = format!("{MAPS}?labelSelector=value&limit=3&continue={}", token(&first));
        let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let answer = site.quietly("GET", &rest, &[("accept", table)], Value::Null).await;
        site.note(&format!(
            "{} {}",
            answer.body["kind"], answer.body["rows"][0]["cells"][0]
        ));
        let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
        for name in ["a", "b"] {
            site.step("POST", leases, json!({ "metadata": { "name": name } })).await;
        }
        let answer = site
            .quietly("GET", &format!("{leases}?limit=1"), &[("accept", table)], Value::Null)
            .await;
        let metadata = &answer.body["metadata"];
        site.note(&format!(
            "remaining {} more {}",
            metadata["remainingItemCount"],
            metadata["continue"].is_string()
        ));
    });
}

#[test]
fn a_page_across_namespaces_is_in_the_order_of_names() {
    contract!(async |site: &Site| {
        site.config_map("b", "{ns}").await;
        site.config_map("a", "{ns}").await;
        let other = json!({ "metadata": { "name": "a", "labels": { "value": "{ns}" } } });
        let path = "/api/v1/namespaces/default/configmaps";
        let named = json!({ "metadata": { "name": "z-{ns}", "labels": { "value": "{ns}" } } });
        site.step("POST", path, named).await;
        site.step("POST", "/api/v1/namespaces/{ns}/secrets", other).await;
        let list = "/api/v1/configmaps?labelSelector=value%3D{ns}&limit=2";
        let first = page(site, "first", list).await;
        page(site, "second", &format!("{list}&continue={}", token(&first))).await;
        site.step("DELETE", &format!("{path}/z-{{ns}}"), Value::Null).await;
    });
}
