//! The values that expressions of validating admission policies can use.

use std::time::Duration;

use serde_json::{Value, json};

use super::contract;
use super::policies::{ATTEMPTS, GROUP, MAPS, binding, decide, enforce, map, maps, policy};
use super::site::{Site, with};

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
            site.fields_of_causes(what, &path, policy("p", spec)).await;
        }
    });
}
