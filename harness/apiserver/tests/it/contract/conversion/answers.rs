//! Answers of a conversion webhook that are errors.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::contract_with_network;
use super::super::program::{Answer, Program};
use super::super::site::Site;
use super::{Definition, V1, V2, address, by_webhook, converted, first, host_and_port, objects, review, second};

/// A program that answers wrongly about the widget that the answer is named after.
async fn wrong(change: fn(name: &str, answer: Value) -> Answer) -> Program {
    Program::start(Arc::new(move |_, request| {
        let objects = objects(request);
        let name = objects[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let answer = review(request, objects.iter().map(converted).collect());
        change(&name, answer)
    }))
    .await
}

async fn read_all(site: &Site, program: &Program, names: &[&str]) {
    let spec = json!({ "versions": [host_and_port(true), address(false)], "conversion": by_webhook(program) });
    Definition::create(site, spec).await;
    for name in names {
        site.quietly("POST", V1, &[], first(name)).await;
        site.get(&format!("{V2}/{name}")).await;
    }
}

#[test]
fn wrong_reviews() {
    contract_with_network!(async |site: &Site| {
        let program = wrong(|name, mut answer| {
            match name {
                "uid" => answer["response"]["uid"] = "other".into(),
                "no-uid" => answer["response"]["uid"] = Value::Null,
                "kind" => answer["kind"] = "Other".into(),
                "version" => answer["apiVersion"] = "apiextensions.k8s.io/v1beta1".into(),
                "no-response" => answer["response"] = Value::Null,
                "empty" => return Answer::Body(json!({})),
                _ => {}
            }
            Answer::Body(answer)
        })
        .await;
        let names = ["fine", "uid", "no-uid", "kind", "version", "no-response", "empty"];
        read_all(site, &program, &names).await;
    });
}

#[test]
fn failed_conversions() {
    contract_with_network!(async |site: &Site| {
        let program = wrong(|name, mut answer| {
            answer["response"]["result"] = match name {
                "message" => json!({ "status": "Failed", "message": "it cannot be converted" }),
                "status" => json!({ "status": "Failed" }),
                "other-status" => json!({ "status": "Fine" }),
                _ => json!({}),
            };
            Answer::Body(answer)
        })
        .await;
        read_all(site, &program, &["message", "status", "other-status", "nothing"]).await;
        site.post(V2, second("message")).await;
        site.post(V2, second("new-message")).await;
        site.merge(&format!("{V2}/message"), json!({ "spec": { "address": "a:1" } }))
            .await;
        site.delete(&format!("{V2}/message"), Value::Null).await;
        site.delete(&format!("{V1}/message"), Value::Null).await;
    });
}

#[test]
fn wrong_numbers_of_objects() {
    contract_with_network!(async |site: &Site| {
        let program = wrong(|name, mut answer| {
            let objects = answer["response"]["convertedObjects"].as_array_mut().unwrap();
            match name {
                "none" => objects.clear(),
                "two" => objects.push(objects[0].clone()),
                _ => {}
            }
            Answer::Body(answer)
        })
        .await;
        read_all(site, &program, &["none", "two"]).await;
    });
}

#[test]
fn wrong_objects() {
    contract_with_network!(async |site: &Site| {
        let program = wrong(|name, mut answer| {
            let object = &mut answer["response"]["convertedObjects"][0];
            match name {
                "version" => object["apiVersion"] = "example.com/v7".into(),
                "same-version" => {
                    let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
                    object["apiVersion"] = format!("{group}/v1").into();
                }
                "kind" => object["kind"] = "Other".into(),
                "name" => object["metadata"]["name"] = "other".into(),
                "namespace" => object["metadata"]["namespace"] = "other".into(),
                "uid" => object["metadata"]["uid"] = "other".into(),
                "no-metadata" => object["metadata"] = Value::Null,
                "labels" => object["metadata"]["labels"] = json!({ "a": 1 }),
                "labels-list" => object["metadata"]["labels"] = json!(["a"]),
                "annotations" => object["metadata"]["annotations"] = json!({ "a": { "b": "c" } }),
                "label-syntax" => object["metadata"]["labels"] = json!({ "a b": "c" }),
                _ => {}
            }
            Answer::Body(answer)
        })
        .await;
        let names = [
            "version",
            "same-version",
            "kind",
            "name",
            "namespace",
            "uid",
            "no-metadata",
            "labels",
            "labels-list",
            "annotations",
            "label-syntax",
        ];
        read_all(site, &program, &names).await;
    });
}

#[test]
fn fields_that_the_schema_does_not_have_are_dropped() {
    contract_with_network!(async |site: &Site| {
        let program = wrong(|_, mut answer| {
            let object = &mut answer["response"]["convertedObjects"][0];
            object["spec"]["other"] = "field".into();
            object["other"] = json!({});
            Answer::Body(answer)
        })
        .await;
        read_all(site, &program, &["a"]).await;
        site.post(V2, second("b")).await;
        site.get(&format!("{V1}/b")).await;
    });
}

#[test]
fn answers_that_are_no_reviews() {
    contract_with_network!(async |site: &Site| {
        let program = wrong(|name, answer| match name {
            "code" => Answer::Text(500, "it failed".to_owned()),
            "not-found" => Answer::Text(404, "not here".to_owned()),
            _ => Answer::Body(answer),
        })
        .await;
        read_all(site, &program, &["code", "not-found"]).await;
    });
}
