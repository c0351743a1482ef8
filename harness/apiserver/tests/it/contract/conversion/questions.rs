//! What a conversion webhook is asked.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::contract_with_network;
use super::super::program::{Answer, Program};
use super::super::site::Site;
use super::{
    Definition, V1, V2, address, by_webhook, converted, converter, first, host_and_port, objects, review, second,
};

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

/// A program that converts, and changes the ports of new widgets in their first version.
async fn converter_and_admission() -> Program {
    Program::start(Arc::new(|path, asked| {
        if path == "convert" {
            return Answer::Body(review(asked, objects(asked).iter().map(converted).collect()));
        }
        let patch = json!([{ "op": "replace", "path": "/spec/port", "value": 8080 }]);
        Answer::Body(json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {
                "uid": asked["request"]["uid"], "allowed": true,
                "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
            },
        }))
    }))
    .await
}

#[test]
fn a_webhook_of_admission_gets_the_version_of_its_rule() {
    contract_with_network!(async |site: &Site| {
        let program = converter_and_admission().await;
        let spec = json!({ "versions": [host_and_port(true), address(false)], "conversion": by_webhook(&program) });
        Definition::create(site, spec).await;
        let hook = json!({
            "name": "admit.example.com",
            "clientConfig": { "url": format!("{}/admit", program.url), "caBundle": program.authority },
            "rules": [{
                "operations": ["CREATE"], "apiGroups": ["{group}"], "apiVersions": ["v1"], "resources": ["widgets"],
            }],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        let configuration =
            json!({ "metadata": { "name": "{ns}-a", "labels": { "case": "{ns}" } }, "webhooks": [hook] });
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        site.quietly("POST", path, &[], configuration).await;
        for _ in 0..600 {
            site.quietly("POST", &format!("{V1}?dryRun=All"), &[], first("probe"))
                .await;
            if program.calls.lock().iter().any(|(path, _)| path == "admit") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        program.calls.lock().clear();
        site.post(V2, second("a")).await;
        let calls = program.calls.lock();
        let asked = calls.iter().find(|(path, _)| path == "admit").map(|(_, review)| review);
        let mut request = asked.unwrap()["request"].clone();
        request["object"]["metadata"]["managedFields"] = Value::Null;
        for field in ["kind", "resource", "requestKind", "requestResource", "object"] {
            site.note(&format!("{field}: {:#}", request[field]));
        }
    });
}
