//! Selectors, impersonation and tokens that try to gain rights.

use clock::Stream;
use http::{HeaderValue, Request};
use serde_json::json;

use super::{Check, Hostile, User, pick};
use crate::selectors::{ROLES, SECRETS, objects};
use crate::{corpus, encode, mutate, target};

/// Parts of the header of a token, of its claims, and signatures.
const TOKENS: [&str; 4] = [
    r#"{"alg":"none"}.{"sub":"system:serviceaccount:kube-system:default"}."#,
    r#"{"alg":"EdDSA","kid":""}.{"iss":"https://kubernetes.default.svc","sub":"system:admin"}.AAAA"#,
    r#"{"alg":"HS256"}.{"sub":"system:serviceaccount:default:default","exp":9223372036854775807}.AAAA"#,
    "..",
];

pub(super) fn prepare() -> Vec<Hostile> {
    objects()
        .iter()
        .map(|(path, object)| Hostile::post(path, object))
        .collect()
}

/// A selector of the corpus, mutated.
fn selector(stream: &mut Stream, round: u64) -> String {
    let input = target("selectors")
        .and_then(|target| {
            Some(mutate::input(
                target.form,
                &corpus::inputs(target).ok()?,
                "selectors",
                stream.bits(),
                round,
            ))
        })
        .unwrap_or_default();
    String::from_utf8_lossy(&input).chars().take(10_000).collect()
}

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    vec![match stream.below(8) {
        0..4 => {
            let selector = encode(&selector(stream, round));
            let other = *pick(
                &["", "&fieldSelector=metadata.name%3Dmine", "&labelSelector=app"],
                stream,
            );
            let (method, query) = *pick(
                &[
                    ("GET", ""),
                    ("GET", "watch=true&timeoutSeconds=1&"),
                    ("DELETE", "dryRun=All&"),
                ],
                stream,
            );
            let path = format!("{SECRETS}?{query}fieldSelector={selector}{other}");
            Hostile::body(method, &path, "application/json", "")
                .by(User::Limited)
                .must(Check::OnlyMine)
        }
        4 => escalation(stream, round),
        5 => impersonation(stream),
        _ => {
            let token = pick(&TOKENS, stream).replace('"', "\\\"");
            let header = HeaderValue::from_str(&format!("Bearer {}{}", token, stream.below(1000)));
            anonymous("authorization", header.unwrap_or(HeaderValue::from_static("Bearer a")))
        }
    }]
}

/// A role or a token with rights that the user does not have, or a read around the name.
fn escalation(stream: &mut Stream, round: u64) -> Hostile {
    let all = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let paths = [
        "x",
        "mine%2F..%2Fx",
        "mine/../x",
        "..%2Fsecrets%2Fx",
        "x/",
        "/x",
        "x%00",
        "mine%0Ax",
    ];
    let hostile = match stream.below(4) {
        0 => Hostile::post(
            &format!("{ROLES}/roles"),
            &json!({ "metadata": { "name": format!("e{round}") }, "rules": all }),
        ),
        1 => Hostile::json(
            "PUT",
            &format!("{ROLES}/roles/r"),
            &json!({ "metadata": { "name": "r" }, "rules": all }),
        ),
        2 => Hostile::post(
            "/api/v1/namespaces/kube-system/serviceaccounts/default/token",
            &json!({ "spec": { "audiences": [] } }),
        ),
        _ => Hostile::get(&format!("{SECRETS}/{}", pick(&paths, stream))),
    };
    hostile.by(User::Limited).must(Check::Refused)
}

/// A header that could be dropped, so that the request would run with the administrator's rights.
fn impersonation(stream: &mut Stream) -> Hostile {
    // An empty header is none, as on a real server.
    let values: [&[u8]; 4] = [b"\xff", b"limited\xc3\xa9", b"\xc3\x28", b"nobody"];
    let value = pick(&values, stream);
    let value = HeaderValue::from_bytes(value).unwrap_or(HeaderValue::from_static("nobody"));
    let name = *pick(
        &[
            "impersonate-user",
            "impersonate-group",
            "impersonate-uid",
            "impersonate-extra-a",
        ],
        stream,
    );
    let request = Request::get(SECRETS).header(name, value).body(Vec::new());
    Hostile::new(request.unwrap_or_default()).must(Check::Refused)
}

fn anonymous(name: &str, value: HeaderValue) -> Hostile {
    let request = Request::get(SECRETS).header(name, value).body(Vec::new());
    Hostile::new(request.unwrap_or_default())
        .by(User::Anonymous)
        .must(Check::Refused)
}
