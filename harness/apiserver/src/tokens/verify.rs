//! Verifies bearer tokens.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::ISSUER;
use crate::identity::Identity;
use crate::inner::Inner;
use crate::store::Key;
use crate::types::time::after;

/// How long a bound pod can use its token after its deletion timestamp, in seconds.
const DELETION_LEEWAY: i64 = 60;

/// The identity of a token, and which of the requested audiences it is valid for.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) identity: Identity,
    pub(crate) audiences: Vec<String>,
}

/// Why a token is invalid, as in TokenReviews.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// It is unknown, damaged, or for other audiences.
    #[error("invalid bearer token")]
    Unknown,
    /// Its claims do not hold.
    #[error("[invalid bearer token, {0}]")]
    Claims(#[from] ClaimError),
}

/// Which claim of a token does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    /// It is not valid yet, or has expired.
    #[error("{0}")]
    Time(&'static str),
    /// It is for other audiences.
    #[error("token audiences {found} is invalid for the target audiences {requested}")]
    Audience { found: String, requested: String },
    /// An object that it names was deleted.
    #[error("{what} {name:?} of the token does not exist any more")]
    Deleted { what: &'static str, name: String },
    /// An object that it names is being deleted.
    #[error("service account token has been invalidated")]
    Invalidated,
    /// An object that it names cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

impl Inner {
    /// Verifies a token for those audiences; without audiences, for the server's own.
    ///
    /// # Errors
    /// The reason why it is invalid, as in TokenReviews.
    pub(crate) fn owner(&self, token: &str, audiences: &[String]) -> Result<Owner, TokenError> {
        let own = [ISSUER.to_owned()];
        let audiences = if audiences.is_empty() { &own } else { audiences };
        let known = self.tokens.lock().get(token).cloned();
        if let Some(identity) = known.or_else(|| self.bootstrap_identity(token)) {
            // A static token is valid only for the server's own audience.
            let matching = audiences
                .iter()
                .filter(|audience| *audience == ISSUER)
                .cloned()
                .collect::<Vec<_>>();
            if matching.is_empty() {
                return Err(TokenError::Unknown);
            }
            return Ok(Owner {
                identity: identity.authenticated(),
                audiences: matching,
            });
        }
        let claims = self.signer.verify(token).ok_or(TokenError::Unknown)?;
        Ok(self.account(&claims, audiences)?)
    }

    /// The service account in signed claims.
    fn account(&self, claims: &Value, audiences: &[String]) -> Result<Owner, ClaimError> {
        let text = |pointer: &str| claims.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let now = self.registry.clock().now();
        check_times(claims, now).map_err(ClaimError::Time)?;
        let issued_for = claims["aud"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let issued_for: Vec<&str> = issued_for.collect();
        let matching: Vec<String> = audiences
            .iter()
            .filter(|audience| issued_for.contains(&audience.as_str()))
            .cloned()
            .collect();
        if matching.is_empty() {
            return Err(ClaimError::Audience {
                found: go_texts(&issued_for),
                requested: go_texts(audiences),
            });
        }
        let namespace = text("/kubernetes.io/namespace");
        let name = text("/kubernetes.io/serviceaccount/name");
        let uid = text("/kubernetes.io/serviceaccount/uid");
        self.check_exists("serviceaccounts", "service account", namespace, name, uid, now)?;
        let mut identity = Identity {
            uid: uid.to_owned(),
            ..Identity::service_account(namespace, name)
        };
        let mut add_extra = |key: &str, value: String| {
            let key = format!("authentication.kubernetes.io/{key}");
            identity.extra.insert(key, vec![value]);
        };
        add_extra("credential-id", format!("JTI={}", text("/jti")));
        for (claim, table, place) in [
            ("pod", "pods", namespace),
            ("secret", "secrets", namespace),
            ("node", "nodes", ""),
        ] {
            let Some(bound) = claims.pointer(&format!("/kubernetes.io/{claim}")) else {
                continue;
            };
            let of_bound = |field: &str| bound.get(field).and_then(Value::as_str).unwrap_or_default();
            let (name, uid) = (of_bound("name"), of_bound("uid"));
            // The node of a bound pod is informational and not checked.
            let is_checked = claim != "node" || claims.pointer("/kubernetes.io/pod").is_none();
            if is_checked {
                self.check_exists(table, claim, place, name, uid, now)?;
            }
            if claim != "secret" {
                add_extra(&format!("{claim}-name"), name.to_owned());
                if !uid.is_empty() {
                    add_extra(&format!("{claim}-uid"), uid.to_owned());
                }
            }
        }
        Ok(Owner {
            identity: identity.authenticated(),
            audiences: matching,
        })
    }

    /// Checks that the object exists, has the uid in the token, and was not deleted too long ago.
    fn check_exists(
        &self,
        table: &str,
        what: &'static str,
        namespace: &str,
        name: &str,
        uid: &str,
        now: Timestamp,
    ) -> Result<(), ClaimError> {
        let object = self.registry.store().get(table, &Key::new(namespace, name));
        let object = object.filter(|object| object.meta.uid == uid);
        let object = object.ok_or_else(|| ClaimError::Deleted {
            what,
            name: name.to_owned(),
        })?;
        if !object.meta.deleting {
            return Ok(());
        }
        let value = object
            .value()
            .map_err(|error| ClaimError::Unreadable(error.to_string()))?;
        let since = value["metadata"]["deletionTimestamp"].as_str().unwrap_or_default();
        let since: Option<Timestamp> = since.parse().ok();
        let deadline = since.map(|since| after(since, SignedDuration::from_secs(DELETION_LEEWAY)));
        if deadline.is_some_and(|deadline| now > deadline) {
            return Err(ClaimError::Invalidated);
        }
        Ok(())
    }
}

fn check_times(claims: &Value, now: Timestamp) -> Result<(), &'static str> {
    let seconds = |claim: &str| claims[claim].as_i64().unwrap_or_default();
    if claims["iss"] != ISSUER {
        return Err("token is from another issuer");
    }
    if now.as_second() >= seconds("exp") {
        return Err("service account token has expired");
    }
    if now.as_second() < seconds("nbf") {
        return Err("service account token is not valid yet");
    }
    Ok(())
}

fn go_texts<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{:?}", text.as_ref())).collect();
    format!("[{}]", texts.join(" "))
}
