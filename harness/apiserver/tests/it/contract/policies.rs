//! What validating admission policies decide about requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, with};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";
/// How often a server is asked whether it has noticed the policies of a case.
const ATTEMPTS: usize = 300;

/// A rule for all operations on config maps.
fn maps() -> Value {
    rule("", "configmaps")
}

fn rule(group: &str, resource: &str) -> Value {
    json!({ "operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource] })
}

/// A policy for the namespace of the case; by default for config maps.
fn policy(name: &str, spec: Value) -> Value {
    let constraints = json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "{ns}" } },
        "resourceRules": [maps()],
    });
    let change = spec.get("matchConstraints").cloned().unwrap_or(json!({}));
    let spec = with(&spec, json!({ "matchConstraints": with(&constraints, change) }));
    json!({ "metadata": { "name": format!("{{ns}}-{name}"), "labels": { "case": "{ns}" } }, "spec": spec })
}

fn binding(name: &str, actions: &[&str], spec: Value) -> Value {
    let whole = json!({ "policyName": format!("{{ns}}-{name}"), "validationActions": actions });
    json!({
        "metadata": { "name": format!("{{ns}}-{name}"), "labels": { "case": "{ns}" } }, "spec": with(&whole, spec),
    })
}

/// Creates policies with their bindings, and waits until they are in force.
async fn enforce(site: &Site, policies: impl IntoIterator<Item = (Value, Value)>) {
    let mut policies: Vec<(Value, Value)> = policies.into_iter().collect();
    let marker = json!({ "validations": [{ "expression": "object == null || object.metadata.name != 'marker'" }] });
    policies.push((policy("marker", marker), binding("marker", &["Deny"], json!({}))));
    for (policy, binding) in policies {
        for (plural, object) in [
            ("validatingadmissionpolicies", policy),
            ("validatingadmissionpolicybindings", binding),
        ] {
            let created = site.quietly("POST", &format!("{GROUP}/{plural}"), &[], object).await;
            assert_eq!(created.code, 201, "{:#}", created.body);
        }
    }
    for _ in 0..ATTEMPTS {
        let marker = json!({ "metadata": { "name": "marker" } });
        let path = format!("{MAPS}?dryRun=All");
        if site.quietly("POST", &path, &[], marker).await.code == 422 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not notice the policies");
}

/// The policies with one validation each that fails, and bindings that deny.
async fn deny(site: &Site, validations: &[Value]) {
    let numbered = validations.iter().enumerate();
    let policies = numbered.map(|(index, validation)| {
        let name = format!("p{index}");
        let spec = json!({ "validations": [validation] });
        (policy(&name, spec), binding(&name, &["Deny"], json!({})))
    });
    enforce(site, policies).await;
}

/// Sends a request and records the code and the message.
async fn decide(site: &Site, what: &str, method: &str, path: &str, body: Value) {
    let headers: &[(&str, &str)] = match method {
        "PATCH" => &[("content-type", "application/merge-patch+json")],
        _ => &[],
    };
    let answer = site.quietly(method, path, headers, body).await;
    let warnings = answer.headers.get_all("warning").iter();
    let mut warnings: Vec<&str> = warnings.map(|warning| warning.to_str().unwrap()).collect();
    // Upstream evaluates policies in any order.
    warnings.sort_unstable();
    let message = answer.body["message"].as_str().unwrap_or("fine");
    site.note(&format!("{what}: {method} {path} -> {} {message}", answer.code));
    for warning in warnings {
        site.note(&format!("  warning {warning}"));
    }
}

fn map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "key": name } })
}

#[test]
fn a_request_is_denied() {
    contract!(async |site: &Site| {
        deny(site, &[json!({ "expression": "object.data.key != 'bad'" })]).await;
        site.post(MAPS, map("bad")).await;
        site.step("POST", MAPS, map("good")).await;
        let path = format!("{MAPS}/good");
        site.merge(&path, json!({ "data": { "key": "bad" } })).await;
        site.send(
            "PATCH",
            &format!("{MAPS}/other?fieldManager=a"),
            &[("content-type", "application/apply-patch+yaml")],
            with(
                &map("other"),
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "key": "bad" } }),
            ),
        )
        .await;
        let generated = json!({ "metadata": { "generateName": "some-" }, "data": { "key": "bad" } });
        let answer = site.quietly("POST", MAPS, &[], generated).await;
        site.note(&format!("generated: {}", answer.code));
        decide(site, "a deletion has no object", "DELETE", &path, Value::Null).await;
    });
}

#[test]
fn messages_and_reasons() {
    contract!(async |site: &Site| {
        for (index, validation) in [
            json!({ "message": "it is bad" }),
            json!({ "messageExpression": "'the key is ' + object.data.key", "message": "unused" }),
            json!({ "messageExpression": "''", "message": "an empty text is not used" }),
            json!({ "messageExpression": "string(object.data.missing)", "message": "an error is not used" }),
            json!({ "messageExpression": "'two\\nlines'", "message": "two lines are not used" }),
            json!({ "messageExpression": "string(object.data.missing)" }),
            json!({ "reason": "Forbidden" }),
            json!({ "reason": "Invalid" }),
            json!({ "reason": "RequestEntityTooLarge", "message": "too large" }),
            json!({ "reason": "Unauthorized" }),
        ]
        .iter()
        .enumerate()
        {
            let name = format!("m{index}");
            let rule = with(&maps(), json!({ "resourceNames": [name] }));
            let validation = with(
                &json!({ "expression": "object.data.key == 'good'" }),
                validation.clone(),
            );
            let spec = json!({ "validations": [validation], "matchConstraints": { "resourceRules": [rule] } });
            let created = site
                .quietly(
                    "POST",
                    &format!("{GROUP}/validatingadmissionpolicies"),
                    &[],
                    policy(&name, spec),
                )
                .await;
            site.note(&format!("{name}: {}", created.code));
            let bound = binding(&name, &["Deny"], json!({}));
            let path = format!("{GROUP}/validatingadmissionpolicybindings");
            site.quietly("POST", &path, &[], bound).await;
        }
        enforce(site, []).await;
        for index in 0..10 {
            site.post(MAPS, map(&format!("m{index}"))).await;
        }
    });
}

#[test]
fn the_first_refusal_counts() {
    contract!(async |site: &Site| {
        let validations = ["first", "second"].map(|message| json!({ "expression": "false", "message": message }));
        let spec = json!({ "validations": validations, "matchConstraints": { "resourceRules": [
            with(&maps(), json!({ "resourceNames": ["a"] })),
        ] } });
        enforce(site, [(policy("p", spec), binding("p", &["Deny"], json!({})))]).await;
        site.post(MAPS, map("a")).await;
    });
}

#[test]
fn a_binding_warns() {
    contract!(async |site: &Site| {
        let spec = json!({ "validations": [
            { "expression": "object.data.key != 'a'", "message": "it is a" },
            { "expression": "object.data.key.size() > 1" },
        ] });
        enforce(site, [(policy("p", spec), binding("p", &["Warn", "Audit"], json!({})))]).await;
        decide(site, "two", "POST", MAPS, map("a")).await;
        decide(site, "one", "POST", MAPS, map("b")).await;
        decide(site, "none", "POST", MAPS, map("good")).await;
        decide(
            site,
            "audit and dry run",
            "POST",
            &format!("{MAPS}?dryRun=All"),
            map("c"),
        )
        .await;
    });
}

#[test]
fn only_failures_of_audited_policies_pass() {
    contract!(async |site: &Site| {
        let spec = json!({ "validations": [{ "expression": "false" }] });
        let audited = (
            policy("audited", spec.clone()),
            binding("audited", &["Audit"], json!({})),
        );
        let unbound = json!({ "policyName": "{ns}-missing" });
        let without = (policy("without", spec), binding("without", &["Deny"], unbound));
        enforce(site, [audited, without]).await;
        decide(site, "audited", "POST", MAPS, map("a")).await;
    });
}

#[test]
fn match_conditions() {
    contract!(async |site: &Site| {
        let conditions = |name: &str, expressions: &[&str], failure: &str| {
            let named = expressions.iter().enumerate();
            let conditions: Vec<Value> = named
                .map(|(index, expression)| json!({ "name": format!("c{index}"), "expression": expression }))
                .collect();
            let spec = json!({
                "failurePolicy": failure,
                "matchConditions": conditions,
                "validations": [{ "expression": "false" }],
                "matchConstraints": { "resourceRules": [with(&maps(), json!({ "resourceNames": [name] }))] },
            });
            (policy(name, spec), binding(name, &["Deny"], json!({})))
        };
        let error = "object.data.missing == 'a'";
        enforce(
            site,
            [
                conditions("holds", &["object.data.key == 'holds'", "true"], "Fail"),
                conditions("fails", &["true", "object.data.key == 'other'"], "Fail"),
                conditions("error", &["true", error], "Fail"),
                conditions("errors", &[error, "object.data.lacking == 'b'"], "Fail"),
                conditions("ignored", &[error], "Ignore"),
                conditions("first", &[error, "false"], "Fail"),
            ],
        )
        .await;
        for name in ["holds", "fails", "error", "errors", "ignored", "first"] {
            site.post(MAPS, map(name)).await;
        }
    });
}

#[test]
fn errors_of_validations() {
    contract!(async |site: &Site| {
        let policies = [
            ("key", "object.data.missing == 'a'", "Fail"),
            ("index", "[1, 2][5] == 1", "Fail"),
            ("zero", "1 / (object.data.size() - 1) == 0", "Fail"),
            ("type", "object.data.key > 1", "Fail"),
            ("number", "int(object.data.key) == 1", "Fail"),
            ("ignored", "object.data.missing == 'a'", "Ignore"),
        ]
        .map(|(name, expression, failure)| {
            let spec = json!({
                "failurePolicy": failure,
                "validations": [{ "expression": expression }, { "expression": "true" }],
                "matchConstraints": { "resourceRules": [with(&maps(), json!({ "resourceNames": [name] }))] },
            });
            (policy(name, spec), binding(name, &["Deny"], json!({})))
        });
        enforce(site, policies).await;
        for name in ["key", "index", "zero", "type", "number", "ignored"] {
            decide(site, name, "POST", MAPS, map(name)).await;
        }
    });
}

#[test]
fn variables_of_a_policy() {
    contract!(async |site: &Site| {
        let spec = |expression: &str| {
            json!({
                "variables": [
                    { "name": "key", "expression": "object.data.key" },
                    { "name": "letters", "expression": "variables.key.split('')" },
                    { "name": "broken", "expression": "object.data.missing" },
                    { "name": "outer", "expression": "variables.broken + 'a'" },
                ],
                "validations": [{
                    "expression": expression,
                    "messageExpression": "'key ' + variables.key + ' of ' + string(variables.letters.size())",
                }],
            })
        };
        let named = |name: &str, expression: &str| {
            let rules = json!({ "resourceRules": [with(&maps(), json!({ "resourceNames": [name] }))] });
            let spec = with(&spec(expression), json!({ "matchConstraints": rules }));
            (policy(name, spec), binding(name, &["Deny"], json!({})))
        };
        enforce(
            site,
            [
                named("used", "variables.letters.size() == 1"),
                named("unused", "variables.key == 'unused' || variables.broken == ''"),
                named("broken", "variables.broken == ''"),
                named("outer", "variables.outer == ''"),
                named(
                    "inner",
                    "[1, 2].all(key, variables.letters.exists(letter, letter == 'x'))",
                ),
            ],
        )
        .await;
        for name in ["used", "unused", "broken", "outer", "inner"] {
            decide(site, name, "POST", MAPS, map(name)).await;
        }
    });
}

#[test]
fn which_requests_match() {
    contract!(async |site: &Site| {
        let matching = |name: &str, constraints: Value| {
            let spec = json!({
                "validations": [{ "expression": "false", "message": name }], "matchConstraints": constraints,
            });
            (policy(name, spec), binding(name, &["Warn"], json!({})))
        };
        let only = |operation: &str| json!({ "resourceRules": [with(&maps(), json!({ "operations": [operation] }))] });
        enforce(
            site,
            [
                matching("create", only("CREATE")),
                matching("update", only("UPDATE")),
                matching("delete", only("DELETE")),
                matching("labels", json!({ "objectSelector": { "matchLabels": { "a": "b" } } })),
                matching(
                    "excluded",
                    json!({ "excludeResourceRules": [with(&maps(), json!({ "resourceNames": ["a"] }))] }),
                ),
                matching("group", json!({ "resourceRules": [rule("apps", "configmaps")] })),
                matching(
                    "cluster",
                    json!({ "resourceRules": [with(&maps(), json!({ "scope": "Cluster" }))] }),
                ),
                matching(
                    "other",
                    json!({ "namespaceSelector": { "matchLabels": { "missing": "" } } }),
                ),
                matching("any", json!({ "resourceRules": [rule("*", "*")] })),
                matching("sub", json!({ "resourceRules": [rule("apps", "deployments/*")] })),
                matching("scale", json!({ "resourceRules": [rule("apps", "*/scale")] })),
            ],
        )
        .await;
        decide(site, "create", "POST", MAPS, map("a")).await;
        decide(site, "create another", "POST", MAPS, map("b")).await;
        let path = format!("{MAPS}/a");
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        decide(site, "label", "PATCH", &path, label).await;
        decide(
            site,
            "no label",
            "PATCH",
            &path,
            json!({ "metadata": { "labels": null } }),
        )
        .await;
        decide(site, "without a change", "PATCH", &path, json!({})).await;
        decide(site, "delete", "DELETE", &path, Value::Null).await;
        decide(site, "delete all", "DELETE", MAPS, Value::Null).await;
        let labels = json!({ "app": "a" });
        let deployment = json!({ "metadata": { "name": "d" }, "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } },
        } });
        decide(site, "deployment", "POST", DEPLOYMENTS, deployment).await;
        let path = format!("{DEPLOYMENTS}/d");
        let status = json!({ "status": { "replicas": 1 } });
        decide(site, "status", "PATCH", &format!("{path}/status"), status).await;
        let scale = json!({ "spec": { "replicas": 2 } });
        decide(site, "scale", "PATCH", &format!("{path}/scale"), scale).await;
    });
}

#[test]
fn the_request_in_expressions() {
    contract!(async |site: &Site| {
        let shown = [
            "request.operation",
            "request.kind.group + '/' + request.kind.version + '/' + request.kind.kind",
            "request.resource.group + '/' + request.resource.version + '/' + request.resource.resource",
            "request.requestKind.kind + ' ' + request.requestResource.resource",
            "request.?subResource.orValue('none')",
            "(request.?name.orValue('none').startsWith('g-') ? 'generated' : request.?name.orValue('none'))",
            "string(request.namespace == object.metadata.namespace)",
            "string(request.dryRun)",
            "request.options.kind + ' ' + request.options.apiVersion",
            "string(oldObject == null)",
            "(object.metadata.name.startsWith('a') ? 'a' : 'generated')",
            "string(has(object.metadata.uid))",
            "(namespaceObject.metadata.name == request.namespace ? 'its namespace' : 'another')",
            "namespaceObject.status.phase",
            "string(type(object.data) == map)",
        ];
        let message = shown.join(" + ', ' + ");
        let spec = |resource: Value| {
            json!({
                "validations": [{ "expression": "false", "messageExpression": message }],
                "matchConstraints": { "resourceRules": [with(&resource, json!({ "operations": ["CREATE", "UPDATE"] }))] },
            })
        };
        let maps = (policy("maps", spec(maps())), binding("maps", &["Warn"], json!({})));
        enforce(site, [maps]).await;
        decide(site, "create", "POST", MAPS, map("a")).await;
        let generated = json!({ "metadata": { "generateName": "g-" }, "data": { "key": "a" } });
        decide(site, "generated", "POST", MAPS, generated).await;
        decide(site, "dry run", "POST", &format!("{MAPS}?dryRun=All"), map("ab")).await;
        let path = format!("{MAPS}/a");
        decide(site, "patch", "PATCH", &path, json!({ "data": { "key": "b" } })).await;
    });
}

/// No other case has parameters: an upstream server that stops watching them does not begin again.
#[test]
fn parameters_of_a_binding() {
    contract!(async |site: &Site| {
        let params = |name: &str, label: &str| {
            json!({
                "metadata": { "name": name, "labels": { "limits": label } }, "data": { "most": name.len().to_string() },
            })
        };
        for (name, label) in [("one", "a"), ("three", "a"), ("longest", "b")] {
            site.quietly("POST", MAPS, &[], params(name, label)).await;
        }
        let checked = |name: &str, reference: Value| {
            let spec = json!({
                "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
                "validations": [{
                    "expression": "object.data.key.size() <= int(params.data.most)",
                    "messageExpression": "'more than ' + params.data.most",
                }],
                "matchConstraints": { "resourceRules": [with(&maps(), json!({ "resourceNames": [name] }))] },
            });
            (
                policy(name, spec),
                binding(name, &["Deny"], json!({ "paramRef": reference })),
            )
        };
        let named = |name: &str, action: &str| json!({ "name": name, "parameterNotFoundAction": action });
        let selected = |label: &str, action: &str| json!({ "selector": { "matchLabels": { "limits": label } }, "parameterNotFoundAction": action });
        let unreferenced = json!({
            "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "validations": [{ "expression": "params != null", "message": "there are no parameters" }],
            "matchConstraints": { "resourceRules": [with(&maps(), json!({ "resourceNames": ["no-ref"] }))] },
        });
        enforce(
            site,
            [
                checked("by-name", named("one", "Deny")),
                checked(
                    "in-place",
                    with(&named("longest", "Deny"), json!({ "namespace": "{ns}" })),
                ),
                checked(
                    "elsewhere",
                    with(&named("one", "Deny"), json!({ "namespace": "default" })),
                ),
                checked("missing", named("lacking", "Deny")),
                checked("allowed", named("lacking", "Allow")),
                checked("selected", selected("b", "Deny")),
                checked("none-selected", selected("c", "Deny")),
                checked("none-needed", selected("c", "Allow")),
                (policy("no-ref", unreferenced), binding("no-ref", &["Deny"], json!({}))),
            ],
        )
        .await;
        // A server begins to watch parameters when a policy needs them.
        for _ in 0..ATTEMPTS {
            let path = format!("{MAPS}?dryRun=All");
            let answer = site.quietly("POST", &path, &[], map("by-name")).await;
            let message = answer.body["message"].as_str().unwrap_or_default();
            if message.contains("more than") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for name in [
            "by-name",
            "in-place",
            "elsewhere",
            "missing",
            "allowed",
            "selected",
            "none-selected",
            "none-needed",
            "no-ref",
        ] {
            decide(site, name, "POST", MAPS, map(name)).await;
        }
    });
}

#[test]
fn what_the_authorizer_says() {
    contract!(async |site: &Site| {
        let shown = [
            "string(authorizer.group('').resource('pods').namespace('{ns}').check('create').allowed())",
            "string(authorizer.group('').resource('pods').namespace('{ns}').check('delete').allowed())",
            "string(authorizer.group('').resource('pods').namespace('default').check('create').allowed())",
            "string(authorizer.group('').resource('pods').subresource('log').namespace('{ns}').name('a').check('get').allowed())",
            "string(authorizer.requestResource.check('create').allowed())",
            "string(authorizer.requestResource.check('escalate').allowed())",
            "string(authorizer.path('/healthz').check('get').allowed())",
            "string(authorizer.path('/other').check('get').allowed())",
            "string(authorizer.serviceAccount('default', 'default').group('').resource('pods').check('create').allowed())",
            "string(authorizer.group('').resource('pods').check('create').errored())",
        ];
        let spec = json!({
            "variables": [{ "name": "shown", "expression": shown.join(" + ' ' + ") }],
            "validations": [{ "expression": "false", "messageExpression": "variables.shown" }],
        });
        let subject = json!({ "kind": "User", "name": "{ns}-user", "apiGroup": "rbac.authorization.k8s.io" });
        let rules = [
            json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"] }),
            json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["create"] }),
            json!({ "apiGroups": [""], "resources": ["pods/log"], "resourceNames": ["a"], "verbs": ["get"] }),
        ];
        site.grant("{ns}", "writer", &subject, &rules).await;
        enforce(site, [(policy("p", spec), binding("p", &["Warn"], json!({})))]).await;
        decide(site, "the administrator", "POST", MAPS, map("a")).await;
        let answer = site
            .quietly("POST", MAPS, &[("impersonate-user", "{ns}-user")], map("b"))
            .await;
        let warnings = answer.headers.get_all("warning").iter();
        let warnings: Vec<&str> = warnings.map(|warning| warning.to_str().unwrap()).collect();
        site.note(&format!("the user: {} {warnings:?}", answer.code));
    });
}

#[test]
fn addresses_versions_and_urls() {
    contract!(async |site: &Site| {
        let texts = [
            "https://user@Example.com:80/a%20b?x=1&x=2&y",
            "/absolute?x",
            "http://[::1]:8080",
            "mailto:a@example.com",
            "relative",
            "http://a b/",
            "http://a:port/",
            "10.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1%eth0",
            "2001:DB8::1",
            "127.0.0.1",
            "010.0.0.1",
            "10.0.0.0/8",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "2001:db8::/32",
            "1.2.3",
            "1.2",
            "v1.2.3",
            "01.2.3",
            "1.2.3-alpha.1+build",
        ];
        let shown = [
            "isURL(text)",
            "isIP(text)",
            "isCIDR(text)",
            "isSemver(text)",
            "isSemver(text, true)",
            "(isURL(text) ? url(text).getScheme() + ' ' + url(text).getHost() + ' ' + url(text).getHostname() + ' ' + url(text).getPort() + ' ' + url(text).getEscapedPath() : '')",
            "(isURL(text) ? string(url(text).getQuery().size()) : '')",
            "(isIP(text) ? string(ip(text)) + ' ' + string(ip(text).family()) + ' ' + string(ip(text).isLoopback()) + ' ' + string(ip(text).isGlobalUnicast()) + ' ' + string(ip.isCanonical(text)) : '')",
            "(isCIDR(text) ? string(cidr(text)) + ' ' + string(cidr(text).ip()) + ' ' + string(cidr(text).masked()) + ' ' + string(cidr(text).prefixLength()) : '')",
            "(isSemver(text) ? string(semver(text).major()) + ' ' + string(semver(text).minor()) + ' ' + string(semver(text).isLessThan(semver('1.2.3'))) : '')",
        ];
        let shown: Vec<String> = shown
            .iter()
            .map(|expression| {
                let is_text = expression.starts_with('(');
                let expression = expression.replace("text", "variables.text");
                if is_text {
                    expression
                } else {
                    format!("string({expression})")
                }
            })
            .collect();
        let compared = [
            "url('https://a/b') == url('https://a/b')",
            "ip('::1') == ip('0:0::1')",
            "cidr('10.0.0.0/8').containsIP('10.1.2.3')",
            "cidr('10.0.0.0/8').containsIP(ip('11.0.0.0'))",
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
            "cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))",
            "semver('1.2.3').compareTo(semver('1.10.0')) == -1",
            "semver('v1.2', true) == semver('1.2.0')",
            "url('https://a/b?x=1').getQuery()['x'] == ['1']",
        ];
        let compared = compared.map(|expression| format!("string({expression})"));
        let shown = format!(
            "object.data.key == 'compare' ? {} : {}",
            compared.join(" + ' ' + "),
            shown.join(" + '; ' + ")
        );
        let spec = json!({
            "variables": [
                { "name": "text", "expression": "object.data.key" }, { "name": "shown", "expression": shown },
            ],
            "validations": [{ "expression": "false", "messageExpression": "variables.shown" }],
        });
        enforce(site, [(policy("p", spec), binding("p", &["Warn"], json!({})))]).await;
        for (index, text) in texts.into_iter().chain(["compare"]).enumerate() {
            let map = json!({ "metadata": { "name": format!("a{index}") }, "data": { "key": text } });
            let answer = site.quietly("POST", &format!("{MAPS}?dryRun=All"), &[], map).await;
            let warning = answer
                .headers
                .get("warning")
                .map(|warning| warning.to_str().unwrap().to_owned());
            let warning = warning.unwrap_or_default();
            let shown = warning.split("{ns}-p': ").last().unwrap_or_default();
            let shown = shown.rsplit("-p': ").next().unwrap_or_default();
            site.note(&format!("{text}: {shown}"));
        }
    });
}

#[test]
fn namespaces_and_evictions() {
    contract!(async |site: &Site| {
        let constraints = |rules: Value| json!({ "resourceRules": [rules] });
        let named = |name: &str, rules: Value, expression: &str| {
            let spec = json!({
                "validations": [{ "expression": expression, "message": name }], "matchConstraints": constraints(rules),
            });
            (policy(name, spec), binding(name, &["Deny"], json!({})))
        };
        enforce(
            site,
            [
                named(
                    "namespace",
                    with(&rule("", "namespaces"), json!({ "operations": ["UPDATE"] })),
                    "!has(object.metadata.annotations) || !('bad' in object.metadata.annotations)",
                ),
                named(
                    "eviction",
                    rule("", "pods/eviction"),
                    "request.subResource != 'eviction' || object.kind != 'Eviction'",
                ),
                named(
                    "deletion",
                    with(&rule("", "pods"), json!({ "operations": ["DELETE"] })),
                    "oldObject.metadata.name != 'b' && object == null",
                ),
            ],
        )
        .await;
        let path = "/api/v1/namespaces/{ns}";
        decide(
            site,
            "bad namespace",
            "PATCH",
            path,
            json!({ "metadata": { "annotations": { "bad": "" } } }),
        )
        .await;
        decide(
            site,
            "namespace",
            "PATCH",
            path,
            json!({ "metadata": { "annotations": { "good": "" } } }),
        )
        .await;
        for name in ["a", "b"] {
            let pod = json!({ "metadata": { "name": name }, "spec": {
                "nodeName": "none", "containers": [{ "name": "c", "image": "i:1" }], "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
            } });
            site.quietly(
                "POST",
                "/api/v1/namespaces/{ns}/serviceaccounts",
                &[],
                json!({ "metadata": { "name": "default" } }),
            )
            .await;
            decide(site, "pod", "POST", "/api/v1/namespaces/{ns}/pods", pod).await;
            let path = format!("/api/v1/namespaces/{{ns}}/pods/{name}");
            let eviction = json!({ "metadata": { "name": name } });
            decide(site, "evict", "POST", &format!("{path}/eviction"), eviction).await;
            decide(site, "delete", "DELETE", &path, Value::Null).await;
        }
    });
}

#[test]
fn expressions_of_a_policy_are_checked() {
    contract!(async |site: &Site| {
        for (what, change) in [
            ("syntax", json!({ "validations": [{ "expression": "object." }] })),
            ("variable", json!({ "validations": [{ "expression": "self.a == 1" }] })),
            (
                "no params",
                json!({ "validations": [{ "expression": "params.a == 1" }] }),
            ),
            (
                "authorizer in a message",
                json!({ "validations": [{ "expression": "true", "messageExpression": "authorizer.path('/a').check('get').reason()" }] }),
            ),
            ("any type", json!({ "validations": [{ "expression": "object.a" }] })),
            ("wrong type", json!({ "validations": [{ "expression": "1 + 1" }] })),
            (
                "type of a condition",
                json!({ "matchConditions": [{ "name": "a", "expression": "'a'" }] }),
            ),
            (
                "type of a message",
                json!({ "validations": [{ "expression": "true", "messageExpression": "1" }] }),
            ),
            (
                "any message",
                json!({ "validations": [{ "expression": "true", "messageExpression": "object.a" }] }),
            ),
            (
                "nested",
                json!({ "validations": [{ "expression": "object.a ? object.b : false" }] }),
            ),
            (
                "function",
                json!({ "validations": [{ "expression": "object.a.unknown()" }] }),
            ),
            (
                "message",
                json!({ "validations": [{ "expression": "true", "messageExpression": "1 +" }] }),
            ),
            (
                "condition",
                json!({ "matchConditions": [{ "name": "a", "expression": "object." }] }),
            ),
            (
                "variables in conditions",
                json!({ "variables": [{ "name": "a", "expression": "1" }], "matchConditions": [{ "name": "a", "expression": "variables.a == 1" }] }),
            ),
            (
                "own variable",
                json!({ "variables": [{ "name": "a", "expression": "object." }] }),
            ),
            (
                "later variable",
                json!({ "variables": [{ "name": "a", "expression": "variables.b" }, { "name": "b", "expression": "1" }] }),
            ),
            (
                "missing variable",
                json!({ "validations": [{ "expression": "variables.missing == 1" }] }),
            ),
            (
                "annotation",
                json!({ "auditAnnotations": [{ "key": "a", "valueExpression": "object." }] }),
            ),
        ] {
            let spec = with(&json!({ "validations": [{ "expression": "true" }] }), change);
            let path = format!("{GROUP}/validatingadmissionpolicies?dryRun=All");
            let answer = site.quietly("POST", &path, &[], policy("p", spec)).await;
            // The descriptions of errors in expressions differ between implementations of the language.
            let causes = answer.body["details"]["causes"].as_array().into_iter().flatten();
            let fields: Vec<String> = causes
                .map(|cause| format!("{} {}", cause["reason"], cause["field"]))
                .collect();
            site.note(&format!("{what}: {} {}", answer.code, fields.join(", ")));
        }
    });
}
