//! Label and field selectors: they select what their parser says, and grant no right.

use apiserver::selector::LabelSelector;
use apiserver::{Authorization, Identity};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::world::{MAX_URI, World, encode};
use crate::target::Runner;
use crate::{Outcome, Violation};

pub(crate) const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

pub(super) fn start() -> Result<Runner, Violation> {
    let world = World::with(Authorization::Rbac)?;
    for (path, object) in objects() {
        world.expect("POST", &path, &object, &[201])?;
    }
    Ok(Box::new(move |input| run(&world, &String::from_utf8_lossy(input))))
}

/// Secrets, and a role of the user `limited` for everything with the Secret `mine`; each with its path.
pub(crate) fn objects() -> Vec<(String, Value)> {
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["*"] }]);
    let subject = json!({ "kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io" });
    let binding = json!({
        "metadata": { "name": "r" }, "subjects": [subject],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
    });
    let secrets = [
        ("mine", json!({ "app": "a" })),
        ("other", json!({ "app": "b", "example.com/tier": "x" })),
        ("x", json!({})),
    ];
    let secrets = secrets.map(|(name, labels)| json!({ "metadata": { "name": name, "labels": labels } }));
    let role = json!({ "metadata": { "name": "r" }, "rules": rules });
    let mut objects: Vec<_> = secrets.into_iter().map(|secret| (SECRETS.to_owned(), secret)).collect();
    objects.push((format!("{ROLES}/roles"), role));
    objects.push((format!("{ROLES}/rolebindings"), binding));
    objects
}

fn run(world: &World, text: &str) -> Result<Outcome, Violation> {
    let encoded = encode(text);
    if encoded.len() > MAX_URI {
        return Ok(Outcome::Refused);
    }
    let mut outcome = Outcome::Refused;
    // The role names one object: only it may ever be seen, deleted or watched.
    for (method, query) in [
        ("GET", ""),
        ("GET", "watch=true&timeoutSeconds=1&"),
        ("DELETE", "dryRun=All&"),
    ] {
        let path = format!("{SECRETS}?{query}fieldSelector={encoded}");
        let (code, names) = list(world, &Identity::user("limited"), method, &path)?;
        if names.iter().any(|name| name != "mine") {
            return Err(Violation::new(format!(
                "{method} with {text:?} exposes {names:?} with {code}"
            )));
        }
    }
    let (code, _) = list(
        world,
        &Identity::admin(),
        "GET",
        &format!("{SECRETS}?fieldSelector={encoded}"),
    )?;
    if code == 200 {
        outcome = Outcome::Accepted;
    }
    let (code, names) = list(
        world,
        &Identity::admin(),
        "GET",
        &format!("{SECRETS}?labelSelector={encoded}"),
    )?;
    match LabelSelector::parse(text) {
        Ok(selector) => {
            outcome = Outcome::Accepted;
            let (_, all) = list(world, &Identity::admin(), "GET", SECRETS)?;
            let mut expected = Vec::new();
            for name in all {
                let object = world
                    .expect("GET", &format!("{SECRETS}/{name}"), &Value::Null, &[200])?
                    .json();
                let labels = serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
                if selector.matches(&labels) {
                    expected.push(name);
                }
            }
            if code != 200 || names != expected {
                return Err(Violation::new(format!(
                    "{text:?} selects {names:?} with {code}, and its parser {expected:?}"
                )));
            }
        }
        Err(_) if code == 200 => {
            return Err(Violation::new(format!(
                "{text:?} is invalid, and the server accepts it"
            )));
        }
        Err(_) => {}
    }
    Ok(outcome)
}

/// The code and the names of the returned objects.
fn list(world: &World, user: &Identity, method: &str, path: &str) -> Result<(u16, Vec<String>), Violation> {
    let request = Request::builder().method(method).uri(path).body(Bytes::new());
    let request = request.map_err(|error| Violation::new(format!("{path}: {error}")))?;
    let Some(answer) = world.send(user, request)? else {
        return Ok((0, Vec::new()));
    };
    Ok((answer.code, names_in(&answer.body)))
}

/// The names of the objects in a list, or in the events of a watch.
pub(crate) fn names_in(body: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for document in serde_json::Deserializer::from_slice(body).into_iter::<Value>() {
        let Ok(document) = document else { break };
        let items = document["items"].as_array().into_iter().flatten();
        for object in items.chain([&document["object"]]) {
            names.extend(object["metadata"]["name"].as_str().map(str::to_owned));
        }
    }
    names
}
