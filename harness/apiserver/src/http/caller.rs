//! Authentication, impersonation and authorization of requests.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::impersonation;
use super::path::Route;
use crate::authorization::Action;
use crate::identity::Identity;
use crate::inner::Inner;
use crate::status::ApiError;

impl Inner {
    /// The identity of a request: of its connection, else of its bearer token, else anonymous.
    ///
    /// # Errors
    /// 401 for an invalid token.
    pub(super) fn caller(&self, connection: Option<&Identity>, headers: &HeaderMap) -> Result<Identity, ApiError> {
        if let Some(identity) = connection {
            return Ok(identity.clone().authenticated());
        }
        let header = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        // A token that is not text is invalid.
        let header = header
            .map(std::str::from_utf8)
            .transpose()
            .map_err(|_| unauthorized())?;
        match header.and_then(bearer) {
            None | Some("") => Ok(Identity::anonymous()),
            Some(token) => self
                .owner(token, &[])
                .map(|owner| owner.identity)
                .map_err(|_| unauthorized()),
        }
    }

    /// The effective identity: the caller, or the identity that the caller impersonates.
    ///
    /// # Errors
    /// 403 if the caller may not impersonate it, 400 for invalid headers.
    pub(super) fn effective_identity(
        &self,
        caller: Identity,
        headers: &HeaderMap,
        action: &Action,
    ) -> Result<Identity, ApiError> {
        match impersonation::requested(headers)? {
            Some(other) => {
                let may = |action: &Action| {
                    let decision = self.authorizer.check(self.registry.store(), &caller, action);
                    decision.allowed.then_some(()).ok_or(decision.reason)
                };
                impersonation::check(&caller.user, &other, action, may)?;
                Ok(impersonation::completed(other))
            }
            None => Ok(caller),
        }
    }

    /// Whether an identity may perform the action.
    ///
    /// # Errors
    /// 403, or 401 for an anonymous user if authorization does not use roles.
    pub(super) fn authorize(&self, who: &Identity, route: &Route, action: &Action) -> Result<(), ApiError> {
        if !self.authorizer.is_rbac() {
            let open = matches!(route, Route::Health { .. } | Route::Version);
            return if open || !who.is_anonymous() {
                Ok(())
            } else {
                Err(unauthorized())
            };
        }
        let decision = self.authorizer.check(self.registry.store(), who, action);
        if decision.allowed {
            return Ok(());
        }
        Err(action.refusal(&who.user, &decision.reason))
    }
}

/// The token of an `Authorization` header, read as upstream does.
fn bearer(header: &str) -> Option<&str> {
    let mut words = header.trim().split(' ');
    let scheme = words.next()?;
    scheme.eq_ignore_ascii_case("bearer").then(|| words.next())?
}

fn unauthorized() -> ApiError {
    ApiError::new(401, "Unauthorized", "Unauthorized")
}
