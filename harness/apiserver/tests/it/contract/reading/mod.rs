//! What clients read: pages of lists, watches, revisions, and the forms of a response.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, TestResponse};

mod forms;
mod pages;
mod revisions;
mod streams;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

/// Reads a list and records its names, whether it has a token, and the number of remaining objects.
async fn page(site: &Site, what: &str, path: &str) -> TestResponse {
    let answer = site.quietly("GET", path, &[], Value::Null).await;
    let items = answer.body["items"].as_array().into_iter().flatten();
    let names: Vec<&Value> = items.map(|item| &item["metadata"]["name"]).collect();
    let metadata = &answer.body["metadata"];
    let more = metadata["continue"].as_str().is_some_and(|token| !token.is_empty());
    let result = json!({
        "code": answer.code, "message": answer.body["message"], "names": names, "more": more,
        "remaining": metadata["remainingItemCount"],
    });
    site.note(&format!("{what}: {result}"));
    answer
}

fn token(answer: &TestResponse) -> String {
    let token = answer.body["metadata"]["continue"].as_str();
    token.unwrap_or_default().to_owned()
}
