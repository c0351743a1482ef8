//! Access control: what reviews say equals what requests get, for random rules, names and selectors.

use apiserver::{Authorization, Identity, Options, Server};
use bytes::Bytes;
use clock::{Clock, Seed};
use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;
use serde_json::{Value, json};

const NAMES: [&str; 4] = ["mine", "other", "a,metadata.name=mine", r"a\"];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn server() -> Server {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let mut options = Options::new(clock, Seed::new(7));
    options.authorization = Authorization::Rbac;
    Server::new(options).unwrap()
}

async fn send(server: &Server, who: &Identity, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let media_type = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type);
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    exchange(server, who, request.body(Bytes::from(body)).unwrap()).await
}

async fn exchange(server: &Server, who: &Identity, request: Request<Bytes>) -> (u16, Value) {
    let (parts, mut body) = server.handle(Some(who), request).await.unwrap().into_parts();
    // The first part is enough of a watch.
    let bytes = match tokio::time::timeout(std::time::Duration::from_millis(1), body.frame()).await {
        Ok(Some(frame)) => frame.unwrap().into_data().unwrap(),
        _ => Bytes::new(),
    };
    (
        parts.status.as_u16(),
        serde_json::from_slice(&bytes).unwrap_or_default(),
    )
}

/// A rule and the namespace of its role; `None` for a cluster role.
type Grant = (Option<&'static str>, Value);

fn any_grant() -> impl Strategy<Value = Grant> {
    let some = |texts: Vec<&'static str>| prop::collection::vec(select(texts), 1..3);
    let verbs = some(vec![
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "*",
    ]);
    let groups = some(vec!["", "apps", "*"]);
    let resources = some(vec![
        "secrets",
        "configmaps",
        "namespaces",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "*/status",
        "*",
    ]);
    let names = prop::collection::vec(select(NAMES.to_vec()), 0..3);
    let place = select(vec![None, Some("default"), Some("work")]);
    (place, verbs, groups, resources, names).prop_map(|(place, verbs, groups, resources, names)| {
        let mut rule = json!({ "verbs": verbs, "apiGroups": groups, "resources": resources });
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        (place, rule)
    })
}

/// A request, and what it does in the terms of authorization.
#[derive(Clone, Debug)]
struct Asked {
    method: &'static str,
    path: String,
    attributes: Value,
}

/// Selector with their fields, operators and values.
type Selector = Vec<(&'static str, bool, &'static str)>;

fn encoded(terms: &Selector) -> String {
    let escape = |value: &str| value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
    let texts = terms.iter().map(|(field, equal, value)| {
        let operator = if *equal { "=" } else { "!=" };
        format!("{field}{operator}{}", escape(value))
    });
    let text = texts.collect::<Vec<_>>().join(",");
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn any_request() -> impl Strategy<Value = Asked> {
    let kind = select(vec![("", "secrets"), ("", "configmaps"), ("apps", "deployments")]);
    let place = select(vec![Some("default"), Some("work"), None]);
    let field = select(vec!["metadata.name", "metadata.namespace"]);
    let terms = prop::collection::vec((field, any::<bool>(), select(NAMES.to_vec())), 0..3);
    let on = select(vec![
        "list",
        "watch",
        "deletecollection",
        "create",
        "get",
        "update",
        "patch",
        "delete",
    ]);
    let part = select(vec!["", "status", "scale"]);
    let name = select(vec!["mine", "other"]);
    (kind, place, terms, on, part, name).prop_map(|((group, resource), place, terms, on, part, name)| {
        let single = matches!(on, "get" | "update" | "patch" | "delete");
        let part = if single && resource == "deployments" && on != "delete" {
            part
        } else {
            ""
        };
        let place = if single || on == "create" {
            place.or(Some("work"))
        } else {
            place
        };
        let mut path = if group.is_empty() {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{group}/v1")
        };
        path.extend(place.map(|place| format!("/namespaces/{place}")));
        path = format!("{path}/{resource}");
        let mut selected = "";
        if single {
            path = format!("{path}/{name}");
            if !part.is_empty() {
                path = format!("{path}/{part}");
            }
        } else if on != "create" && !terms.is_empty() {
            path = format!("{path}?fieldSelector={}", encoded(&terms));
            if on == "watch" {
                path.push_str("&watch=true");
            }
            let exact = terms
                .iter()
                .find(|(field, equal, _)| *field == "metadata.name" && *equal);
            if on != "deletecollection" {
                selected = exact.map_or("", |(_, _, value)| value);
            }
        } else if on == "watch" {
            path.push_str("?watch=true");
        }
        let method = match on {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        };
        let attributes = json!({
            "verb": on, "group": group, "resource": resource, "subresource": part,
            "namespace": place.unwrap_or_default(), "name": if single { name } else { selected },
        });
        Asked {
            method,
            path,
            attributes,
        }
    })
}

/// Whether a rule allows the attributes: an independent reading of RBAC.
fn allows(rule: &Value, request: &Value) -> bool {
    let has = |field: &str, wanted: &str| {
        let items = rule[field].as_array().into_iter().flatten();
        items
            .filter_map(Value::as_str)
            .any(|item| item == "*" || item == wanted)
    };
    let text = |field: &str| request[field].as_str().unwrap();
    let resource = if text("subresource").is_empty() {
        has("resources", text("resource"))
    } else {
        let (parent, child) = (text("resource"), text("subresource"));
        has("resources", &format!("{parent}/{child}")) || has("resources", &format!("*/{child}"))
    };
    let named = rule["resourceNames"]
        .as_array()
        .is_none_or(|names| names.contains(&request["name"]));
    has("verbs", text("verb")) && has("apiGroups", text("group")) && resource && named
}

async fn check(grants: Vec<Grant>, requests: Vec<Asked>) -> Result<(), TestCaseError> {
    let (server, admin, bob) = (server(), Identity::admin(), Identity::user("bob"));
    let post = async |path: &str, body: Value| {
        let (code, answer) = send(&server, &admin, "POST", path, &body).await;
        assert_eq!(code, 201, "{answer}");
    };
    post("/api/v1/namespaces", json!({ "metadata": { "name": "work" } })).await;
    for namespace in ["default", "work"] {
        for name in ["mine", "other"] {
            for plural in ["secrets", "configmaps"] {
                let path = format!("/api/v1/namespaces/{namespace}/{plural}");
                post(&path, json!({ "metadata": { "name": name } })).await;
            }
        }
    }
    for (index, (place, rule)) in grants.iter().enumerate() {
        let (kind, within) = match place {
            None => ("ClusterRole", RBAC.to_owned()),
            Some(namespace) => ("Role", format!("{RBAC}/namespaces/{namespace}")),
        };
        let metadata = json!({ "name": format!("r{index}") });
        let (roles, bindings) = (
            format!("{}s", kind.to_lowercase()),
            format!("{}bindings", kind.to_lowercase()),
        );
        post(
            &format!("{within}/{roles}"),
            json!({ "metadata": metadata, "rules": [rule] }),
        )
        .await;
        let subject = json!({ "kind": "User", "name": "bob" });
        let role = json!({ "kind": kind, "name": format!("r{index}") });
        let binding = json!({ "metadata": metadata, "subjects": [subject], "roleRef": role });
        post(&format!("{within}/{bindings}"), binding).await;
    }
    for request in requests {
        let namespace = request.attributes["namespace"].as_str().unwrap();
        let reviews = "/apis/authorization.k8s.io/v1";
        let review = json!({ "spec": { "user": "bob", "resourceAttributes": request.attributes } });
        let (_, answer) = send(
            &server,
            &admin,
            "POST",
            &format!("{reviews}/subjectaccessreviews"),
            &review,
        )
        .await;
        let reviewed = answer["status"]["allowed"].as_bool().unwrap();
        let expected = grants
            .iter()
            .filter(|(place, _)| place.is_none_or(|place| place == namespace))
            .any(|(_, rule)| allows(rule, &request.attributes));
        prop_assert_eq!(reviewed, expected, "{:?}", request);
        if !namespace.is_empty() {
            let path = format!("{reviews}/selfsubjectrulesreviews");
            let body = json!({ "spec": { "namespace": namespace } });
            let (_, answer) = send(&server, &bob, "POST", &path, &body).await;
            let rules = answer["status"]["resourceRules"].as_array().unwrap();
            let ruled = rules.iter().any(|rule| allows(rule, &request.attributes));
            prop_assert_eq!(ruled, expected, "{:?}", request);
        }
        let body = match request.method {
            "POST" | "PUT" | "PATCH" => json!({}),
            _ => Value::Null,
        };
        let (code, answer) = send(&server, &bob, request.method, &request.path, &body).await;
        prop_assert_eq!(code != 403, expected, "{} {:?}", code, request);
        let name = request.attributes["name"].as_str().unwrap();
        for item in answer["items"].as_array().into_iter().flatten() {
            prop_assert!(
                name.is_empty() || item["metadata"]["name"] == name,
                "{:?}: {}",
                request,
                item
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn reviews_say_what_requests_get(
        grants in prop::collection::vec(any_grant(), 0..4),
        requests in prop::collection::vec(any_request(), 24),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(grants, requests))?;
    }
}

/// A permission for one name does not extend to others, whatever the selector.
#[rstest]
#[case(r"metadata.name!=x\,metadata.name=mine")]
#[case("metadata.name!=mine")]
#[case(r"metadata.name=mi\ne")]
#[case("metadata.name==mine=x")]
#[case(" metadata.name=mine")]
#[case(r"metadata\.name=mine")]
#[case("metadata.name=mine,broken")]
#[tokio::test(start_paused = true)]
async fn a_selector_does_not_extend_a_permission(#[case] selector: &str) {
    let grant =
        json!({ "verbs": ["list", "watch"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"] });
    let (server, admin, bob) = (server(), Identity::admin(), Identity::user("bob"));
    let role = json!({ "metadata": { "name": "r" }, "rules": [grant] });
    let subject = json!({ "kind": "User", "name": "bob" });
    let reference = json!({ "kind": "ClusterRole", "name": "r" });
    let binding = json!({ "metadata": { "name": "r" }, "subjects": [subject], "roleRef": reference });
    for (path, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        assert_eq!(
            send(&server, &admin, "POST", &format!("{RBAC}/{path}"), &body).await.0,
            201
        );
    }
    let secrets = "/api/v1/namespaces/default/secrets?fieldSelector=";
    let encode = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    for watch in ["", "&watch=true"] {
        let path = format!("{secrets}{}{watch}", encode("metadata.name=mine"));
        assert_eq!(send(&server, &bob, "GET", &path, &Value::Null).await.0, 200);
        let path = format!("{secrets}{}{watch}", encode(selector));
        assert_eq!(send(&server, &bob, "GET", &path, &Value::Null).await.0, 403);
    }
}

/// The codes are those of kube-apiserver 1.36, except for texts that are not UTF-8: it accepts them.
#[rstest]
#[case::utf8(&[("impersonate-user", "b\u{f3}b".as_bytes())], 403)]
#[case::latin1(&[("impersonate-user", &b"b\xf3b"[..])], 400)]
#[case::group(&[("impersonate-user", &b"bob"[..]), ("impersonate-group", &b"\xff"[..])], 400)]
#[case::group_only(&[("impersonate-group", &b"\xff"[..])], 400)]
#[case::uid(&[("impersonate-user", &b"bob"[..]), ("impersonate-uid", &b"\xff"[..])], 400)]
#[case::extra(&[("impersonate-user", &b"bob"[..]), ("impersonate-extra-a", &b"\xff"[..])], 400)]
#[case::second_value(&[("impersonate-user", &b"bob"[..]), ("impersonate-user", &b"\xff"[..])], 400)]
#[case::empty(&[("impersonate-user", &b""[..])], 200)]
#[case::accept(&[("accept", &b"application/\xff"[..])], 406)]
#[tokio::test(start_paused = true)]
async fn headers_that_are_not_text_do_not_have_the_rights_of_the_caller(
    #[case] headers: &[(&str, &[u8])],
    #[case] expected: u16,
) {
    let mut request = Request::get("/api/v1/namespaces/default/configmaps");
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    let (code, answer) = exchange(&server(), &Identity::admin(), request.body(Bytes::new()).unwrap()).await;
    assert_eq!(code, expected, "{answer}");
}

#[rstest]
#[case(b"Bearer token", 200)]
#[case(b"bearer token x", 200)]
#[case(b"Bearer  token", 403)]
#[case(b"Bearer ", 403)]
#[case(b"Basic token", 403)]
#[case(b"Bearer \xff", 401)]
#[case(b"\xff", 401)]
#[tokio::test(start_paused = true)]
async fn tokens_are_read_as_upstream_does(#[case] header: &[u8], #[case] expected: u16) {
    let server = server();
    server.add_token("token", Identity::admin());
    let request = Request::get("/api/v1/namespaces/default/configmaps");
    let request = request.header("authorization", HeaderValue::from_bytes(header).unwrap());
    let response = server.handle(None, request.body(Bytes::new()).unwrap()).await.unwrap();
    assert_eq!(response.status().as_u16(), expected);
}

/// A token of another server is invalid, whatever the seeds, unless the run is simulated.
#[tokio::test]
async fn servers_do_not_accept_the_tokens_of_others() {
    let token = async |server: &Server| {
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let (code, answer) = send(server, &Identity::admin(), "POST", path, &json!({ "spec": {} })).await;
        assert_eq!(code, 201);
        answer["status"]["token"].as_str().unwrap().to_owned()
    };
    let accepts = async |server: &Server, token: &str| {
        let request = Request::get("/version").header("authorization", format!("Bearer {token}"));
        let response = server.handle(None, request.body(Bytes::new()).unwrap()).await.unwrap();
        response.status().as_u16() == 200
    };
    let real = || Server::new(Options::new(Clock::wall(), Seed::new(1))).unwrap();
    let (one, other) = (real(), real());
    let issued = token(&one).await;
    assert!(accepts(&one, &issued).await);
    assert!(!accepts(&other, &issued).await);
    assert_eq!(token(&server()).await, token(&server()).await);
}
