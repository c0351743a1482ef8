//! The environment of a case: a server, a separate namespace and API group, and the transcript.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use apiserver::serve::Serving;
use apiserver::{Authorization, Identity, Options, Server};
use clock::{Clock, Seed};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::transcript::Transcript;

const VARIABLE: &str = "DRYDOCK_CONTRACT_KUBECONFIG";
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Where the embedded server of a case runs.
#[derive(Clone, Copy)]
enum Runtime {
    /// In virtual time, on one thread.
    Simulated,
    /// On several threads: it can call the programs of a case.
    Threads,
}

/// Runs the case on the embedded server, and on a real one if the environment names it. With `INSTA_UPDATE=always`
/// only the real server is used, and its responses become the expected ones.
pub fn run(name: &str, case: impl AsyncFn(&Site)) {
    run_on(Runtime::Simulated, name, case);
}

/// The same for a case with programs that the server calls.
pub fn run_with_network(name: &str, case: impl AsyncFn(&Site)) {
    run_on(Runtime::Threads, name, case);
}

fn run_on(runtime: Runtime, name: &str, case: impl AsyncFn(&Site)) {
    let threads = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
    };
    let recording = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    match kubeconfig() {
        Some(path) => {
            println!("{name}: on the server of {VARIABLE}");
            threads().unwrap().block_on(check_transcript(
                name,
                name,
                async || Connected::real(&path).await,
                &case,
            ));
        }
        None => println!("{name}: embedded server only; {VARIABLE} is not set"),
    }
    if recording {
        println!("{name}: recorded; run without INSTA_UPDATE=always to check the embedded server");
        return;
    }
    println!("{name}: on the embedded server");
    let known = format!("{name}__embedded");
    let path = format!("{}/it/contract/snapshots/{known}.snap", env!("CARGO_MANIFEST_DIR"));
    let differs = std::fs::exists(path).unwrap();
    let expected = if differs { known } else { name.to_owned() };
    let runtime_of_case = match runtime {
        Runtime::Threads => threads(),
        Runtime::Simulated => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build(),
    };
    runtime_of_case.unwrap().block_on(check_transcript(
        name,
        &expected,
        async || Connected::embedded(runtime).await,
        &case,
    ));
}

async fn check_transcript(
    name: &str,
    expected: &str,
    connect: impl AsyncFn() -> Connected,
    case: &impl AsyncFn(&Site),
) {
    println!("{name}: expects {expected}");
    let Connected { clients, _serving } = connect().await;
    let site = Site::new(clients).await;
    case(&site).await;
    let transcript = site.finish().await;
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(expected, transcript));
}

/// The server of a case.
struct Connected {
    /// A client with all permissions, and one without an identity, which each request provides.
    clients: [Client; 2],
    /// Only while it listens, an embedded server checks the servers of API services.
    _serving: Option<Serving>,
}

impl Connected {
    async fn embedded(runtime: Runtime) -> Self {
        let clock = match runtime {
            Runtime::Simulated => Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
            Runtime::Threads => Clock::wall(),
        };
        let mut options = Options::new(clock, Seed::new(7));
        options.authorization = Authorization::Rbac;
        options.garbage_collector = true;
        let server = Server::new(options).unwrap();
        let serving = match runtime {
            Runtime::Simulated => None,
            Runtime::Threads => Some(server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap()),
        };
        let services = [server.service(Identity::admin()), server.open_service()];
        Self {
            clients: services.map(|service| Client::new(service, "default")),
            _serving: serving,
        }
    }

    async fn real(path: &str) -> Self {
        Self {
            clients: real(path).await,
            _serving: None,
        }
    }
}

/// The kubeconfig of a real server, if the environment names one.
pub fn kubeconfig() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|path| !path.is_empty())
}

/// The same clients of a real server.
pub async fn real(path: &str) -> [Client; 2] {
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.unwrap();
    // Error responses are expected: do not retry.
    config.default_retry = false;
    let mut open = config.clone();
    open.auth_info = Default::default();
    [config, open].map(|config| Client::try_from(config).unwrap())
}

/// A server as one case uses it.
pub struct Site {
    client: Client,
    open: Client,
    transcript: RefCell<Transcript>,
}

#[derive(Debug)]
pub struct TestResponse {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl TestResponse {
    pub fn revision(&self) -> String {
        self.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }
}

impl Site {
    async fn new([client, open]: [Client; 2]) -> Self {
        let tag = Seed::from_entropy()
            .unwrap()
            .stream("tag")
            .text(8, b"bcdfghjklmnpqrstvwxz");
        let names = vec![
            (format!("contract-{tag}"), "{ns}"),
            (format!("{tag}.example.com"), "{group}"),
        ];
        let site = Self {
            client,
            open,
            transcript: RefCell::new(Transcript::new(names)),
        };
        let namespace = json!({ "metadata": { "name": "{ns}" } });
        assert_eq!(
            site.quietly("POST", "/api/v1/namespaces", &[], namespace).await.code,
            201
        );
        site
    }

    async fn finish(self) -> String {
        for path in [
            "/api/v1/nodes/{ns}",
            "/api/v1/namespaces/{ns}",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?labelSelector=case%3D{ns}",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=case%3D{ns}",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?labelSelector=case%3D{ns}",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings?labelSelector=case%3D{ns}",
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies?labelSelector=case%3D{ns}",
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings?labelSelector=case%3D{ns}",
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?labelSelector=case%3D{ns}",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?labelSelector=case%3D{ns}",
            "/apis/apiregistration.k8s.io/v1/apiservices?labelSelector=case%3D{ns}",
        ] {
            self.respond("DELETE", path, &[], String::new()).await;
        }
        self.transcript.into_inner().finish()
    }

    /// Waits until the watch cache of a real server, which can be late, has the last version of what the path names.
    async fn wait_for_cache(&self, path: &str) {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let get = async |path: &str| {
            let (parts, body) = self.respond("GET", path, &[], String::new()).await.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            (
                parts.status.is_success(),
                serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            )
        };
        if let (true, object) = get(path).await
            && let Some(revision) = object["metadata"]["resourceVersion"].as_str()
        {
            get(&format!("{path}?resourceVersion={revision}")).await;
        }
    }

    async fn exchange(&self, method: &str, path: &str, headers: &[(&str, &str)], body: String) -> Response<Body> {
        // A real server first tries a change on the version in its cache, and again on the last one: the response would have
        // the warnings of both, webhooks two calls, and directives of a patch another effect.
        let change = ["PATCH", "PUT", "DELETE"].contains(&method);
        let cached = path.split(['?', '&']).any(|parameter| parameter == "resourceVersion=0");
        if change || cached {
            self.wait_for_cache(path).await;
        }
        self.respond(method, path, headers, body).await
    }

    async fn respond(&self, method: &str, path: &str, headers: &[(&str, &str)], body: String) -> Response<Body> {
        let (path, body) = {
            let transcript = self.transcript.borrow();
            (transcript.fill(path), transcript.fill(&body))
        };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, self.transcript.borrow().fill(value));
        }
        let body = if body.is_empty() {
            Body::empty()
        } else {
            Body::from(body.into_bytes())
        };
        let says_who = headers.iter().any(|(name, _)| *name == "authorization");
        let client = if says_who { &self.open } else { &self.client };
        let sent = client.send(request.body(body).unwrap());
        tokio::time::timeout(TIME_LIMIT, sent)
            .await
            .expect("a response within the time limit")
            .unwrap()
    }

    /// Sends a request without recording it.
    pub async fn quietly(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Value) -> TestResponse {
        let text = match body {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        let mut headers = headers.to_vec();
        if !text.is_empty() && !headers.iter().any(|(name, _)| *name == "content-type") {
            headers.push(("content-type", "application/json"));
        }
        let (parts, body) = self.exchange(method, path, &headers, text).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        TestResponse {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()),
        }
    }

    /// Sends a request without recording it. Returns the code, the media type and the bytes of the response.
    pub async fn bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (u16, String, Vec<u8>) {
        let mut headers = headers.to_vec();
        let text = match body {
            Value::Null => String::new(),
            other => {
                headers.push(("content-type", "application/json"));
                other.to_string()
            }
        };
        let (parts, body) = self.exchange(method, path, &headers, text).await.into_parts();
        let media_type = parts
            .headers
            .get("content-type")
            .map_or("", |value| value.to_str().unwrap());
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), media_type.to_owned(), bytes.to_vec())
    }

    /// Sends a request and records its response: code, warnings and body.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Value) -> TestResponse {
        let answer = self.quietly(method, path, headers, body).await;
        let mut transcript = self.transcript.borrow_mut();
        transcript.request(&format!("{method} {path}"));
        let mut head = answer.code.to_string();
        for warning in answer.headers.get_all("warning") {
            head.push_str(&format!("\nWarning: {}", warning.to_str().unwrap()));
        }
        transcript.answer(&head, &answer.body);
        answer
    }

    /// Sends a request and records only the code, or the error: for intermediate steps.
    pub async fn step(&self, method: &str, path: &str, body: Value) -> TestResponse {
        let answer = self.quietly(method, path, &[], body).await;
        let head = format!("{} {}", answer.code, answer.body["message"].as_str().unwrap_or("fine"));
        let mut transcript = self.transcript.borrow_mut();
        transcript.request(&format!("{method} {path}"));
        transcript.answer(&head, &Value::Null);
        answer
    }

    /// Sends a request as another user.
    pub async fn send_as(&self, user: &str, method: &str, path: &str, body: Value) -> TestResponse {
        self.note(&format!("as {user}"));
        let mut headers = vec![("impersonate-user", user)];
        if method == "PATCH" {
            headers.push(("content-type", "application/merge-patch+json"));
        }
        self.send(method, path, &headers, body).await
    }

    /// The same, but records only code and message.
    pub async fn step_as(&self, user: &str, method: &str, path: &str, body: Value) -> TestResponse {
        let mut headers = vec![("impersonate-user", user)];
        if method == "PATCH" {
            headers.push(("content-type", "application/merge-patch+json"));
        }
        self.brief(&format!("{user}: "), method, path, &headers, body).await
    }

    /// Sends a request with these headers and records only code and message of the response.
    pub async fn brief(
        &self,
        who: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> TestResponse {
        let answer = self.quietly(method, path, headers, body).await;
        let message = answer.body["message"].as_str().unwrap_or("fine");
        self.note(&format!("{who}{method} {path} -> {} {message}", answer.code));
        answer
    }

    /// Creates a role, binds it to that subject and waits until it applies. `place` is a namespace, or empty for the
    /// whole cluster.
    pub async fn grant(&self, place: &str, name: &str, subject: &Value, rules: &[Value]) {
        let (roles, bindings, kind) = rbac_paths(place);
        let mut rules = rules.to_vec();
        // A permission that only this role grants shows when the role applies.
        rules.push(json!({ "verbs": ["get"], "apiGroups": ["sentinel.example.com"], "resources": [name] }));
        let metadata = json!({ "name": name, "labels": { "case": "{ns}" } });
        let role = json!({ "metadata": metadata, "rules": rules });
        let binding = json!({ "metadata": metadata, "subjects": [subject], "roleRef": { "kind": kind, "name": name } });
        for (path, object) in [(roles, role), (bindings, binding)] {
            let created = self.quietly("POST", &path, &[], object).await;
            assert_eq!(created.code, 201, "{}", created.body);
        }
        let asked = json!({ "verb": "get", "group": "sentinel.example.com", "resource": name, "namespace": place });
        self.until(subject, asked, true).await;
    }

    /// Waits until an access review of that subject has this result.
    pub async fn until(&self, subject: &Value, asked: Value, allowed: bool) {
        let mut spec = json!({ "resourceAttributes": asked });
        let name = subject["name"].as_str().unwrap();
        match subject["kind"].as_str() {
            Some("Group") => spec["groups"] = json!([name]),
            Some("ServiceAccount") => spec["user"] = format!("system:serviceaccount:{{ns}}:{name}").into(),
            _ => spec["user"] = name.into(),
        }
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        // A real server processes new roles with a delay.
        for _ in 0..600 {
            let answer = self.quietly("POST", path, &[], json!({ "spec": spec })).await;
            if answer.body["status"]["allowed"] == allowed {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the answer to {spec} does not become {allowed}");
    }

    /// Waits until the path is not served or has no object. A real server removes definitions after a delay, a busy one
    /// after tens of seconds.
    pub async fn wait_until_gone(&self, path: &str) {
        for _ in 0..1200 {
            if self.quietly("GET", path, &[], Value::Null).await.code == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{path} does not disappear");
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        self.send("GET", path, &[], Value::Null).await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> TestResponse {
        self.send("GET", path, &[("accept", accept)], Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.send("POST", path, &[], body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> TestResponse {
        self.send("PUT", path, &[], body).await
    }

    pub async fn delete(&self, path: &str, body: Value) -> TestResponse {
        self.send("DELETE", path, &[], body).await
    }

    pub async fn merge(&self, path: &str, body: Value) -> TestResponse {
        self.patch(path, "merge-patch", body).await
    }

    /// `kind` is `json-patch`, `merge-patch` or `strategic-merge-patch`.
    pub async fn patch(&self, path: &str, kind: &str, body: Value) -> TestResponse {
        let media_type = format!("application/{kind}+json");
        self.send("PATCH", path, &[("content-type", &media_type)], body).await
    }

    /// Applies a configuration.
    pub async fn apply(&self, path: &str, manager: &str, body: Value) -> TestResponse {
        let path = with_parameter(path, &format!("fieldManager={manager}"));
        let headers = [("content-type", "application/apply-patch+yaml")];
        self.send("PATCH", &path, &headers, body).await
    }

    /// Applies a configuration and takes fields from other managers.
    pub async fn force(&self, path: &str, manager: &str, body: Value) -> TestResponse {
        self.apply(&with_parameter(path, "force=true"), manager, body).await
    }

    /// Records `managedFields` from now on.
    pub fn keep_managers(&self) {
        self.transcript.borrow_mut().keep_managers();
    }

    /// Records a fact about a response that is not in its body.
    pub fn note(&self, text: &str) {
        self.transcript.borrow_mut().request(text);
    }

    /// Sends a request and records the code and the causes of the response, without messages, which contain the object.
    pub async fn causes(&self, what: &str, method: &str, path: &str, body: Value) {
        let headers = match method {
            "PATCH" => vec![("content-type", "application/merge-patch+json")],
            _ => Vec::new(),
        };
        let answer = self.quietly(method, path, &headers, body).await;
        self.note(&format!(
            "{what}: {method} {path} -> {} {}",
            answer.code, answer.body["reason"]
        ));
        for cause in causes_of(&answer.body) {
            self.note(&cause);
        }
    }

    /// Creates an object, and records the code and the reasons and fields of the causes: the messages about expressions
    /// differ between implementations of the language.
    pub async fn fields_of_causes(&self, what: &str, path: &str, body: Value) {
        let answer = self.quietly("POST", path, &[], body).await;
        let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
        let fields: Vec<String> = causes
            .map(|cause| format!("{} {}", cause["reason"], cause["field"]))
            .collect();
        self.note(&format!("{what}: {} {}", answer.code, fields.join(", ")));
    }

    /// Creates a config map with that value.
    pub async fn config_map(&self, name: &str, value: &str) -> TestResponse {
        let map = json!({ "metadata": { "name": name, "labels": { "value": value } }, "data": { "key": value } });
        self.step("POST", "/api/v1/namespaces/{ns}/configmaps", map).await
    }

    /// Defines widgets with that version, and waits until they are served.
    pub async fn define(&self, version: Value) {
        self.define_as(widgets(json!({ "versions": [version] }))).await;
    }

    /// Creates the definition of widgets, and waits until they are served.
    pub async fn define_as(&self, definition: Value) {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let created = self.quietly("POST", definitions, &[], definition).await;
        assert_eq!(created.code, 201, "{}", created.body);
        let path = format!(
            "{definitions}?watch=true&fieldSelector=metadata.name%3Dwidgets.{{group}}&resourceVersion={}",
            created.revision()
        );
        let mut watch = self.watch_quietly(&path).await;
        let established = |event: &Value| {
            event["object"]["status"]["conditions"]
                .as_array()
                .is_some_and(|conditions| {
                    conditions
                        .iter()
                        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
                })
        };
        if !established(&json!({ "object": created.body })) {
            while !established(&watch.next().await.unwrap()) {}
        }
        // A real server serves the resource shortly after it reports so.
        for _ in 0..600 {
            if self.quietly("GET", WIDGETS, &[], Value::Null).await.code == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("widgets are not served");
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Watch<'_> {
        self.transcript.borrow_mut().request(&format!("WATCH {path}"));
        self.watch_quietly(path).await
    }

    async fn watch_quietly(&self, path: &str) -> Watch<'_> {
        let response = self.exchange("GET", path, &[], String::new()).await;
        Watch {
            site: self,
            code: response.status().as_u16(),
            body: response.into_body(),
            rest: Vec::new(),
        }
    }
}

/// The definition of widgets with these members of its spec.
pub fn widgets(spec: Value) -> Value {
    let base = json!({
        "group": "{group}", "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
    });
    json!({ "metadata": { "name": "widgets.{group}" }, "spec": with(&base, spec) })
}

/// The object with these members.
pub fn with(base: &Value, change: Value) -> Value {
    let mut object = base.clone();
    object
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    object
}

/// The path with another query parameter.
fn with_parameter(path: &str, parameter: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}{parameter}")
}

/// The paths of roles and bindings, and the kind of the roles.
fn rbac_paths(place: &str) -> (String, String, &'static str) {
    const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";
    if place.is_empty() {
        let (roles, bindings) = (format!("{GROUP}/clusterroles"), format!("{GROUP}/clusterrolebindings"));
        return (roles, bindings, "ClusterRole");
    }
    let within = format!("{GROUP}/namespaces/{place}");
    (format!("{within}/roles"), format!("{within}/rolebindings"), "Role")
}

/// The causes of an error, each once and in alphabetical order, because upstream checks maps in any order. Structs are
/// left out of the messages, because their values are written in Go's notation.
pub fn causes_of(body: &Value) -> Vec<String> {
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<String> = causes
        .map(|cause| {
            let message = cause["message"].as_str().unwrap_or_default();
            let message = match message.rsplit_once("}: ") {
                Some((_, detail)) => format!("Invalid value: ...: {detail}"),
                None => message.lines().next().unwrap_or_default().to_owned(),
            };
            format!("  {} {}: {message}", cause["reason"], cause["field"])
        })
        .collect();
    causes.sort();
    causes.dedup();
    causes
}

/// The path of widgets.
pub const WIDGETS: &str = "/apis/{group}/v1/namespaces/{ns}/widgets";

pub struct Watch<'a> {
    site: &'a Site,
    code: u16,
    body: Body,
    rest: Vec<u8>,
}

impl Watch<'_> {
    /// The next event; `None` at the end of the watch.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(TIME_LIMIT, self.body.frame())
                .await
                .expect("an event within the time limit")?
                .unwrap();
            self.rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    }

    /// Records that number of events.
    pub async fn expect(&mut self, count: usize) {
        for _ in 0..count {
            let event = self.next().await.unwrap_or_else(|| "the end".into());
            self.site.transcript.borrow_mut().answer(&self.code.to_string(), &event);
        }
    }

    /// Records that number of events as type, name and number of the revision.
    pub async fn expect_brief(&mut self, count: usize) {
        for _ in 0..count {
            let event = self.next().await.unwrap_or_else(|| "the end".into());
            let brief = json!({
                "type": event["type"],
                "name": event["object"]["metadata"]["name"],
                "resourceVersion": event["object"]["metadata"]["resourceVersion"],
                "deletionTimestamp": event["object"]["metadata"]["deletionTimestamp"],
            });
            self.site.transcript.borrow_mut().answer("event", &brief);
        }
    }

    /// Expects the watch to end.
    pub async fn expect_end(&mut self) {
        let next = self.next().await;
        self.site
            .transcript
            .borrow_mut()
            .answer("end", &next.unwrap_or(Value::Null));
    }
}
