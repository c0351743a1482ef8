//! `serviceaccounts/NAME/token`: handles TokenRequests.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::ISSUER;
use crate::inner::Inner;
use crate::registry::{check_review, time_text, tree};
use crate::status::{ApiError, FieldError};
use crate::store::{Key, Object};
use crate::types;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const TYPE: &str = "io.k8s.api.authentication.v1.TokenRequest";
const DEFAULT_SECONDS: i64 = 60 * 60;
const LEAST_SECONDS: i64 = 10 * 60;
const MOST_SECONDS: i64 = 1 << 32;
/// The lifetime that kubelets request for pods. As old clients do not reread a token, it is valid for
/// [`EXTENDED_SECONDS`]; a claim contains the time after which clients should have reread it.
const POD_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// The object that a token is bound to.
struct Bound {
    /// The key in the claims: `pod`, `secret`, `node`.
    claim: &'static str,
    name: String,
    uid: String,
    /// The node of a bound pod, and the node's uid if it exists.
    node: Option<(String, Option<String>)>,
}

impl Inner {
    /// Issues a token for the service account of that key and returns the TokenRequest.
    ///
    /// # Errors
    /// 404 if the account or the object to bind to does not exist; 400, 409 and 422 for requests that do not match
    /// them.
    pub(crate) fn request_token(&self, key: &Key, mut request: Value, dry_run: bool) -> Result<Value, ApiError> {
        check_review(GROUP, KIND, &request)?;
        types::check(TYPE, &mut request)?;
        let catalog = self.registry.catalog();
        let accounts = catalog
            .any_version("", "serviceaccounts")
            .ok_or_else(|| ApiError::internal("service accounts are not served"))?;
        let account = self.registry.get(accounts, key)?;
        check_names(key, &request)?;
        let seconds = seconds(&request)?;
        let bound = match request
            .pointer("/spec/boundObjectRef")
            .filter(|reference| !reference.is_null())
        {
            Some(reference) => Some(self.bound(key, reference)?),
            None => None,
        };
        let audiences = request.pointer("/spec/audiences").and_then(Value::as_array);
        let audiences = match audiences.filter(|audiences| !audiences.is_empty()) {
            Some(audiences) => Value::from(audiences.clone()),
            None => json!([ISSUER]),
        };
        let now = self.registry.clock().now();
        let pods = bound.as_ref().is_some_and(|bound| bound.claim == "pod");
        let extended = seconds == POD_SECONDS && pods && audiences == json!([ISSUER]);
        let lifetime = if extended { EXTENDED_SECONDS } else { seconds };
        let id = if dry_run { String::new() } else { self.token_id() };
        let mut claims = json!({
            "aud": audiences,
            "exp": now.as_second().saturating_add(lifetime),
            "iat": now.as_second(),
            "iss": ISSUER,
            "jti": id,
            "kubernetes.io": {
                "namespace": key.namespace,
                "serviceaccount": { "name": key.name, "uid": account.meta.uid },
            },
            "nbf": now.as_second(),
            "sub": format!("system:serviceaccount:{}:{}", key.namespace, key.name),
        });
        let own = &mut claims["kubernetes.io"];
        if extended {
            own["warnafter"] = now.as_second().saturating_add(seconds).into();
        }
        if let Some(bound) = bound {
            own[bound.claim] = json!({ "name": bound.name, "uid": bound.uid });
            if let Some((name, uid)) = bound.node {
                own["node"] = json!({ "name": name });
                if let Some(uid) = uid {
                    own["node"]["uid"] = uid.into();
                }
            }
        }
        request["kind"] = KIND.into();
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["metadata"] = json!({
            "name": key.name, "namespace": key.namespace, "uid": account.meta.uid,
            "creationTimestamp": time_text(now),
        });
        request["spec"]["audiences"] = audiences;
        request["spec"]["expirationSeconds"] = seconds.into();
        let token = if dry_run {
            String::new()
        } else {
            self.signer.sign(&claims)
        };
        let expiration = now
            .checked_add(SignedDuration::from_secs(seconds))
            .unwrap_or(Timestamp::MAX);
        request["status"] = json!({ "token": token, "expirationTimestamp": time_text(expiration) });
        Ok(request)
    }

    fn bound(&self, account: &Key, reference: &Value) -> Result<Bound, ApiError> {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let (claim, plural, namespace) = match (text("apiVersion"), kind) {
            ("v1", "Pod") => ("pod", "pods", account.namespace.as_str()),
            ("v1", "Secret") => ("secret", "secrets", account.namespace.as_str()),
            ("v1", "Node") => ("node", "nodes", ""),
            (version, kind) => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                return Err(ApiError::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let object = self.find(plural, &Key::new(namespace, name))?;
        let uid = text("uid");
        if !uid.is_empty() && uid != object.meta.uid {
            let message = format!(
                "Operation cannot be fulfilled on {kind} {name:?}: the UID in the bound object reference ({uid}) does \
                 not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(ApiError {
                details: Some(json!({ "name": name, "kind": kind })),
                ..ApiError::new(409, "Conflict", message)
            });
        }
        let mut bound = Bound {
            claim,
            name: name.to_owned(),
            uid: object.meta.uid.clone(),
            node: None,
        };
        if claim == "pod" {
            let pod = tree(&object)?;
            let spec = |field: &str| {
                pod.pointer(&format!("/spec/{field}"))
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            if spec("serviceAccountName") != account.name {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    account.name
                )));
            }
            let node = spec("nodeName");
            if !node.is_empty() {
                let uid = self
                    .find("nodes", &Key::new("", node))
                    .ok()
                    .map(|node| node.meta.uid.clone());
                bound.node = Some((node.to_owned(), uid));
            }
        }
        Ok(bound)
    }

    fn find(&self, plural: &str, key: &Key) -> Result<std::sync::Arc<Object>, ApiError> {
        let catalog = self.registry.catalog();
        let entry = catalog
            .any_version("", plural)
            .ok_or_else(|| ApiError::internal(format!("{plural} are not served")))?;
        self.registry.get(entry, key)
    }
}

/// The names in a request must be absent or match the account.
fn check_names(key: &Key, request: &Value) -> Result<(), ApiError> {
    let own = |field: &str| {
        let value = request.pointer(&format!("/metadata/{field}"));
        value.and_then(Value::as_str).unwrap_or_default()
    };
    let (name, namespace) = (own("name"), own("namespace"));
    if !namespace.is_empty() && namespace != key.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !name.is_empty() && name != key.name {
        let detail = "must match the service account name if specified";
        let error = FieldError::invalid("metadata.name", name, detail);
        return Err(ApiError::invalid(GROUP, KIND, &key.name, &[error]));
    }
    Ok(())
}

fn seconds(request: &Value) -> Result<i64, ApiError> {
    let requested = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
    let seconds = requested.unwrap_or(DEFAULT_SECONDS);
    let detail = if seconds < LEAST_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MOST_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds);
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
    Err(ApiError::invalid(GROUP, KIND, "", &[error]))
}
