//! What a conversion webhook is asked.

use serde_json::{Value, json};

use super::super::contract_with_network;
use super::super::site::Site;
use super::{Definition, V1, V2, address, by_webhook, converter, first, host_and_port, second};

#[test]
fn what_a_conversion_webhook_is_asked() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        let spec = json!({ "versions": [host_and_port(true), address(false)], "conversion": by_webhook(&program) });
        Definition::create(site, spec).await;
        program.calls.lock().clear();
        site.quietly("POST", V1, &[], first("a")).await;
        site.quietly("GET", &format!("{V1}/a"), &[], Value::Null).await;
        program.calls.lock().clear();
        let created = site.quietly("POST", V2, &[], second("b")).await;
        assert_eq!(created.code, 201);
        // Upstream's caches convert the new object too.
        let question = |to: &str| {
            let calls = program.calls.lock();
            let to = format!("/{to}");
            let wanted = |review: &&Value| {
                let request = &review["request"];
                let desired = request["desiredAPIVersion"].as_str().unwrap();
                desired.ends_with(&to) && request["objects"][0]["metadata"]["name"] == "b"
            };
            let found = calls.iter().map(|(_, review)| review).find(wanted).cloned();
            found.unwrap()
        };
        for to in ["v1", "v2"] {
            let mut asked = question(to);
            asked["request"]["objects"][0]["metadata"]["managedFields"] = Value::Null;
            site.note(&format!("{asked:#}"));
        }
    });
}

#[test]
fn an_older_version_of_the_review() {
    contract_with_network!(async |site: &Site| {
        let program = converter().await;
        let mut conversion = by_webhook(&program);
        conversion["webhook"]["conversionReviewVersions"] = json!(["v7", "v1beta1", "v1"]);
        let spec = json!({ "versions": [host_and_port(true), address(false)], "conversion": conversion });
        Definition::create(site, spec).await;
        site.quietly("POST", V1, &[], first("a")).await;
        site.get(&format!("{V2}/a")).await;
        let calls = program.calls.lock();
        site.note(&format!("{}", calls.last().unwrap().1["apiVersion"]));
    });
}
