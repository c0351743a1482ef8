//! The messages between the server and a webhook.

use serde_json::{Map, Value, json};

use super::request::{Kind, Request};
use crate::policies::Target;
use crate::reviewer::Subject;
use crate::status::ApiError;

/// The question to a webhook. The request is seen as that kind and resource.
pub(crate) fn question(
    request: &Request,
    subject: &Subject<'_>,
    (kind, target): &(Kind, Target),
    (version, uid): (&str, &str),
) -> Value {
    let mut requested = Map::new();
    requested.insert("uid".to_owned(), uid.into());
    requested.extend(request.describe(subject, kind, target));
    let seen = |object: Option<&Value>| {
        let mut object = object.cloned().unwrap_or_default();
        // A built-in kind in another version; custom resources were converted.
        if let Some(object) = object.as_object_mut().filter(|_| *target != request.target) {
            object.insert("apiVersion".to_owned(), kind.api_version().into());
            object.insert("kind".to_owned(), kind.kind.as_str().into());
        }
        object
    };
    requested.insert("object".to_owned(), seen(subject.new));
    requested.insert("oldObject".to_owned(), seen(subject.old));
    json!({ "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": requested })
}

/// The answer of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The error of a refusal.
    pub(crate) refusal: Option<ApiError>,
    /// A patch and its type.
    pub(crate) patch: Option<(Vec<u8>, String)>,
    pub(crate) warnings: Vec<String>,
}

/// Reads the answer of a webhook; `version` and `uid` are those of the question.
///
/// # Errors
/// The reason why it is not one.
pub(crate) fn answer(
    body: &Value,
    name: &str,
    (version, uid): (&str, &str),
    can_patch: bool,
) -> Result<Answer, String> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text(body, "kind"), text(body, "apiVersion"));
    let expected = format!("admission.k8s.io/{version}");
    if kind != "AdmissionReview" || api_version != expected {
        return Err(format!(
            "failed to call webhook: expected webhook response of {expected}, Kind=AdmissionReview, got {}, Kind={kind}",
            if api_version.contains('/') {
                api_version
            } else {
                format!("/{api_version}")
            },
        ));
    }
    let Some(response) = body.get("response").filter(|response| response.is_object()) else {
        return Err(invalid("webhook response was absent"));
    };
    let found = text(response, "uid");
    if found != uid && !(version == "v1beta1" && found.is_empty()) {
        return Err(invalid(&format!("expected response.uid={uid:?}, got {found:?}")));
    }
    let patch = patch_of(response, version, can_patch).map_err(|why| invalid(&why))?;
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    let is_allowed = response.get("allowed") == Some(&Value::Bool(true));
    Ok(Answer {
        refusal: (!is_allowed).then(|| refusal(response.get("status").unwrap_or(&Value::Null), name)),
        patch,
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn patch_of(response: &Value, version: &str, can_patch: bool) -> Result<Option<(Vec<u8>, String)>, String> {
    use base64::Engine as _;
    let text = |field: &str| response.get(field).and_then(Value::as_str).unwrap_or_default();
    let (patch, type_) = (text("patch"), text("patchType"));
    let has_type = response.get("patchType").is_some_and(|value| !value.is_null());
    if !can_patch {
        return match (patch.is_empty(), has_type) {
            (false, _) if version == "v1" => Err("webhook response.patch may not be set".to_owned()),
            (_, true) if version == "v1" => Err("webhook response.patchType may not be set".to_owned()),
            _ => Ok(None),
        };
    }
    match (patch.is_empty(), has_type, type_) {
        (true, false, _) => Ok(None),
        (true, true, _) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (false, false, _) if version == "v1" => {
            Err("webhook returned response.patch but not response.patchType".to_owned())
        }
        (false, true, "") => Err(format!("webhook returned invalid response.patchType of {type_:?}")),
        _ => base64::engine::general_purpose::STANDARD
            .decode(patch)
            .map(|patch| Some((patch, type_.to_owned())))
            .map_err(|error| format!("webhook returned invalid response.patch: {error}")),
    }
}

fn invalid(why: &str) -> String {
    format!("received invalid webhook response: {why}")
}

/// The error of a refusal with that status.
fn refusal(status: &Value, name: &str) -> ApiError {
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
    let code = status.get("code").and_then(Value::as_u64).unwrap_or_default();
    let why = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    ApiError {
        details: status.get("details").filter(|details| details.is_object()).cloned(),
        ..ApiError::new(
            u16::try_from(code.clamp(400, 599)).unwrap_or(400),
            text("reason").to_owned(),
            format!("admission webhook {name:?} denied the request{why}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn response(response: Value) -> Value {
        json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response })
    }

    #[rstest]
    #[case(json!({}), "failed to call webhook: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=")]
    #[case(
        response(Value::Null),
        "received invalid webhook response: webhook response was absent"
    )]
    #[case(
        response(json!({ "uid": "2" })),
        r#"received invalid webhook response: expected response.uid="1", got "2""#
    )]
    #[case(
        response(json!({ "uid": "1", "patch": "W10=" })),
        "received invalid webhook response: webhook returned response.patch but not response.patchType"
    )]
    #[case(
        response(json!({ "uid": "1", "patch": "W10=", "patchType": "" })),
        r#"received invalid webhook response: webhook returned invalid response.patchType of """#
    )]
    fn an_answer_must_fit_to_its_question(#[case] body: Value, #[case] expected: &str) {
        assert_eq!(answer(&body, "a", ("v1", "1"), true), Err(expected.to_owned()));
    }

    #[rstest]
    #[case(
        Value::Null,
        400,
        "",
        r#"admission webhook "a" denied the request without explanation"#
    )]
    #[case(json!({ "code": 200, "reason": "Gone" }), 400, "Gone", r#"admission webhook "a" denied the request: Gone"#)]
    #[case(json!({ "code": 403, "message": "no" }), 403, "", r#"admission webhook "a" denied the request: no"#)]
    fn a_refusal_is_an_error(#[case] status: Value, #[case] code: u16, #[case] reason: &str, #[case] message: &str) {
        let body = response(json!({ "uid": "1", "allowed": false, "status": status }));
        let refusal = answer(&body, "a", ("v1", "1"), false).unwrap().refusal.unwrap();
        assert_eq!(
            (refusal.code, refusal.reason.as_ref(), refusal.message.as_str()),
            (code, reason, message)
        );
    }
}
