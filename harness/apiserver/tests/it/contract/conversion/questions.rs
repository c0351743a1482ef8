//! What a conversion webhook is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::contract_with_network;
use super::super::program::{Answer, Program};
use super::super::site::Site;
use super::{
    Definition, V1, V2, address, by_webhook, converted, converter, first, host_and_port, objects, review, second,
    version, widget,
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

/// Lets the program admit new widgets in their first version, also those that clients send in another one.
async fn admit(site: &Site, program: &Program) {
    let hook = json!({
        "name": "admit.example.com",
        "clientConfig": { "url": format!("{}/admit", program.url), "caBundle": program.authority },
        "rules": [{
            "operations": ["CREATE"], "apiGroups": ["{group}"], "apiVersions": ["v1"], "resources": ["widgets"],
        }],
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    let configuration = json!({ "metadata": { "name": "{ns}-a", "labels": { "case": "{ns}" } }, "webhooks": [hook] });
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
}

#[test]
fn a_webhook_of_admission_gets_the_version_of_its_rule() {
    contract_with_network!(async |site: &Site| {
        let program = converter_and_admission().await;
        let spec = json!({ "versions": [host_and_port(true), address(false)], "conversion": by_webhook(&program) });
        Definition::create(site, spec).await;
        admit(site, &program).await;
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

#[test]
fn a_webhook_of_admission_keeps_fields_of_other_versions() {
    contract_with_network!(async |site: &Site| {
        let program = Program::start(Arc::new(|_, asked| {
            let patch = match asked["request"]["name"].as_str().unwrap() {
                "number" => json!([{ "op": "replace", "path": "", "value": 5 }]),
                _ => json!([{ "op": "add", "path": "/spec/size", "value": 8 }]),
            };
            Answer::Body(json!({
                "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                "response": {
                    "uid": asked["request"]["uid"], "allowed": true,
                    "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
                },
            }))
        }))
        .await;
        let first = version("v1", false, json!({ "size": { "type": "integer" } }));
        let properties = json!({ "size": { "type": "integer" }, "color": { "type": "string" } });
        let versions = [first, version("v2", true, properties)];
        Definition::create(site, json!({ "versions": versions })).await;
        admit(site, &program).await;
        let colored = |name| widget("v2", name, json!({ "color": "blue", "size": 1 }));
        site.post(V2, colored("a")).await;
        site.get(&format!("{V1}/a")).await;
        let asked = program.calls.lock().last().unwrap().1["request"]["object"]["spec"].clone();
        site.note(&asked.to_string());
        let refused = site.quietly("POST", V2, &[], colored("number")).await;
        site.note(&refused.code.to_string());
    });
}

#[test]
fn managers_in_a_version_that_cannot_be_converted() {
    contract_with_network!(async |site: &Site| {
        let fails = Arc::new(AtomicBool::new(false));
        let failing = Arc::clone(&fails);
        let program = Program::start(Arc::new(move |_, asked| {
            let mut answer = review(asked, objects(asked).iter().map(converted).collect());
            if failing.load(Ordering::Relaxed) {
                answer["response"]["result"] = json!({ "status": "Failed", "message": "it cannot be converted" });
            }
            Answer::Body(answer)
        }))
        .await;
        let spec = json!({ "versions": [host_and_port(true), address(false)], "conversion": by_webhook(&program) });
        Definition::create(site, spec).await;
        site.keep_managers();
        site.apply(&format!("{V2}/a"), "one", second("a")).await;
        site.apply(&format!("{V2}/b"), "one", second("b")).await;
        fails.store(true, Ordering::Relaxed);
        let port = widget("v1", "b", json!({ "port": 81 }));
        site.force(&format!("{V1}/b"), "two", port).await;
        site.merge(&format!("{V1}/a"), json!({ "spec": { "port": 81 } })).await;
    });
}
