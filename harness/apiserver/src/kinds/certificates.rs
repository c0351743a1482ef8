//! CertificateSigningRequests. The server stores them; controllers approve and sign.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, items, object, same, text};
use crate::resource::{Resource, Subresource};
use crate::status::FieldError;
use crate::table::printers;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// The conditions that only `/approval` sets.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const SHORTEST_SECONDS: i64 = 600;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            "io.k8s.api.certificates.v1.CertificateSigningRequest",
        )
        .cluster()
        .short(&["csr"])
        .status()
        .subresource(Subresource::Approval)
        .selectable("spec.signerName", "/spec/signerName", "")
        .printer(printers::signing_requests())
        .prepare(prepare)
        .validate(validate)
        .build(),
    ]
}

/// The spec does not change after the creation.
fn prepare(new: &mut Value, old: Option<&Value>) {
    match old.and_then(|old| old.get("spec")) {
        Some(spec) => new["spec"] = spec.clone(),
        None => {
            default(new, "", "status", serde_json::json!({}));
        }
    }
}

/// The user who requests the certificate, as the server knows it.
pub(crate) fn set_requester(request: &mut Value, user: &Value) {
    let Some(spec) = object(request, "/spec") else { return };
    for field in ["username", "uid", "groups", "extra"] {
        match user.get(field) {
            Some(value) => spec.insert(field.to_owned(), value.clone()),
            None => spec.remove(field),
        };
    }
}

/// Sets the missing times of conditions. The transition time of a condition lasts as long as its status.
pub(crate) fn stamp_conditions(new: &mut Value, old: Option<&Value>, now: &str) {
    let before = old.map(|old| items(old, "/status/conditions")).unwrap_or_default();
    for condition in super::fields::items_mut(new, "/status/conditions") {
        default(condition, "", "lastUpdateTime", now);
        let same = |other: &&Value| {
            ["/type", "/status"]
                .iter()
                .all(|field| text(other, field) == text(condition, field))
        };
        let earlier = before.iter().find(same).map(|other| text(other, "/lastTransitionTime"));
        let time = earlier.filter(|time| !time.is_empty()).unwrap_or(now).to_owned();
        default(condition, "", "lastTransitionTime", time);
    }
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_approval(new, old);
    let Some(old) = old else { return errors };
    for decision in DECISIONS {
        let (before, now) = (of_type(old, decision), of_type(new, decision));
        let what = if now.len() > before.len() {
            "add"
        } else if now.len() == before.len() && now != before {
            "modify"
        } else {
            continue;
        };
        let why = format!("updates may not {what} a condition of type {decision:?}");
        errors.push(FieldError::forbidden("status.conditions", why));
    }
    errors
}

/// Checks an update of `/approval`, which may decide about the request.
pub(crate) fn validate_approval(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_spec(&mut errors, new, old);
    validate_conditions(&mut errors, new);
    let Some(old) = old else { return errors };
    for kept in ["Approved", "Denied", "Failed"] {
        if of_type(new, kept).len() < of_type(old, kept).len() {
            let why = format!("updates may not remove a condition of type {kept:?}");
            errors.push(FieldError::forbidden("status.conditions", why));
        }
    }
    let certificate = old.pointer("/status/certificate");
    if !same(certificate, None) && !same(certificate, new.pointer("/status/certificate")) {
        let why = "updates may not modify existing certificate content";
        errors.push(FieldError::forbidden("status.certificate", why));
    }
    errors
}

fn of_type<'a>(request: &'a Value, type_: &str) -> Vec<&'a Value> {
    let conditions = items(request, "/status/conditions").iter();
    conditions
        .filter(|condition| text(condition, "/type") == type_)
        .collect()
}

fn validate_spec(errors: &mut Vec<FieldError>, new: &Value, old: Option<&Value>) {
    if old.is_some() {
        return;
    }
    if let Err(why) = check_request(text(new, "/spec/request")) {
        errors.push(FieldError::invalid("spec.request", text(new, "/spec/request"), why));
    }
    let usages = items(new, "/spec/usages");
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    for (index, usage) in usages.iter().enumerate() {
        let (path, text) = (format!("spec.usages[{index}]"), usage.as_str().unwrap_or_default());
        if !USAGES.contains(&text) {
            errors.push(FieldError::not_supported(path.as_str(), text, &USAGES));
        }
        if usages.iter().take(index).any(|earlier| earlier == usage) {
            errors.push(FieldError::duplicate(path, text));
        }
    }
    validate_signer(errors, text(new, "/spec/signerName"));
    if let Some(seconds) = new.pointer("/spec/expirationSeconds").and_then(Value::as_i64)
        && seconds < SHORTEST_SECONDS
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", seconds, why));
    }
}

/// The request must be a PEM block with a certificate request, whose content the signer checks.
fn check_request(encoded: &str) -> Result<(), &'static str> {
    const WHY: &str = "PEM block type must be CERTIFICATE REQUEST";
    let bytes = STANDARD.decode(encoded).map_err(|_| WHY)?;
    let text = String::from_utf8_lossy(&bytes);
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE REQUEST-----").ok_or(WHY)?;
    let (body, _) = rest.split_once("-----END CERTIFICATE REQUEST-----").ok_or(WHY)?;
    let body: String = body.split_whitespace().collect();
    STANDARD.decode(body).map_err(|_| WHY)?;
    Ok(())
}

fn validate_signer(errors: &mut Vec<FieldError>, signer: &str) {
    const PATH: &str = "spec.signerName";
    if signer.is_empty() {
        errors.push(FieldError::required(PATH, ""));
        return;
    }
    if signer == LEGACY_SIGNER {
        let why = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(PATH, signer, why));
        return;
    }
    let Some((domain, path)) = signer.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(PATH, signer, why));
        return;
    };
    super::syntax::dns_subdomain(errors, PATH, domain);
    super::syntax::dns_subdomain(errors, PATH, path);
    if domain.split('.').count() < 2 {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(PATH, domain, why));
    }
}

fn validate_conditions(errors: &mut Vec<FieldError>, new: &Value) {
    const PATH: &str = "status.conditions";
    let conditions = items(new, "/status/conditions");
    for (index, condition) in conditions.iter().enumerate() {
        let (type_, status) = (text(condition, "/type"), text(condition, "/status"));
        if type_.is_empty() {
            errors.push(FieldError::required(format!("{PATH}[{index}].type"), ""));
        }
        let allowed: &[&str] = match type_ {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        if status.is_empty() {
            errors.push(FieldError::required(format!("{PATH}[{index}].status"), ""));
        } else if !allowed.contains(&status) {
            errors.push(FieldError::not_supported(
                format!("{PATH}[{index}].status"),
                status,
                allowed,
            ));
        }
        let earlier = || conditions.iter().take(index).map(|other| text(other, "/type"));
        if DECISIONS.contains(&type_) && earlier().any(|other| DECISIONS.contains(&other) && other != type_) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(PATH, type_, why));
        }
        if earlier().any(|other| other == type_) {
            errors.push(FieldError::duplicate(format!("{PATH}[{index}].type"), type_));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn with(conditions: Value) -> Value {
        json!({ "spec": {}, "status": { "conditions": conditions } })
    }

    #[rstest]
    #[case(json!([]), json!([{ "type": "Approved", "status": "True" }]), 1)]
    #[case(json!([]), json!([{ "type": "Failed", "status": "True" }]), 0)]
    #[case(json!([{ "type": "Denied", "status": "True" }]), json!([]), 1)]
    fn only_the_approval_decides(#[case] old: Value, #[case] new: Value, #[case] expected: usize) {
        let errors = validate(&with(new), Some(&with(old)));
        assert_eq!(errors.len(), expected, "{errors:?}");
    }

    #[rstest]
    #[case(json!([{ "type": "Approved", "status": "True" }]), &[])]
    #[case(
        json!([{ "type": "Approved", "status": "False" }]),
        &[r#"status.conditions[0].status: Unsupported value: "False": supported values: "True""#]
    )]
    #[case(
        json!([{ "type": "Approved", "status": "True" }, { "type": "Denied", "status": "True" }]),
        &[r#"status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive"#]
    )]
    fn decisions_are_checked(#[case] conditions: Value, #[case] expected: &[&str]) {
        let errors = validate_approval(&with(conditions), Some(&with(json!([]))));
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn the_transition_time_lasts_as_long_as_the_status() {
        let old = with(json!([{ "type": "A", "status": "True", "lastTransitionTime": "earlier" }]));
        let mut new = with(json!([{ "type": "A", "status": "True" }, { "type": "B", "status": "True" }]));
        stamp_conditions(&mut new, Some(&old), "now");
        assert_eq!(new["status"]["conditions"][0]["lastTransitionTime"], "earlier");
        assert_eq!(new["status"]["conditions"][0]["lastUpdateTime"], "now");
        assert_eq!(new["status"]["conditions"][1]["lastTransitionTime"], "now");
    }
}
