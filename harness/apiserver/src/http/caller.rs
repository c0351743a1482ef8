//! Who a request counts as, and whether that one may make it.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::impersonation;
use super::path::Route;
use crate::authorization::Action;
use crate::identity::Identity;
use crate::inner::Inner;
use crate::status::ApiError;

impl Inner {
    /// Who a request is from: its connection, else its bearer token, else nobody in particular.
    ///
    /// # Errors
    /// 401 for a token that is not good.
    pub(super) fn caller(&self, connection: Option<&Identity>, headers: &HeaderMap) -> Result<Identity, ApiError> {
        if let Some(identity) = connection {
            return Ok(identity.clone().authenticated());
        }
        let header = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok());
        let token = header.and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
        match token {
            None | Some("") => Ok(Identity::anonymous()),
            Some(token) => self
                .owner(token, &[])
                .map(|owner| owner.identity)
                .map_err(|_| unauthorized()),
        }
    }

    /// Who the request counts as: its caller, or the one that the caller speaks for.
    ///
    /// # Errors
    /// 403 when the caller may not speak for others, 400 for headers that make no sense.
    pub(super) fn speaker(&self, caller: Identity, headers: &HeaderMap, action: &Action) -> Result<Identity, ApiError> {
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

    /// Whether that one may do it.
    ///
    /// # Errors
    /// 403, or 401 for nobody in particular where no roles decide.
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

fn unauthorized() -> ApiError {
    ApiError::new(401, "Unauthorized", "Unauthorized")
}
