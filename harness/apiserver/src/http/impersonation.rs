//! Impersonation: the `Impersonate-*` headers and the permissions that they need.
//!
//! As in Kubernetes 1.36, there are two alternatives: the legacy permission `impersonate` on each part of the other
//! identity, or the constrained permissions `impersonate:MODE` on each part together with `impersonate-on:MODE:VERB`
//! on the request itself (KEP-5284).

use http::HeaderMap;

use crate::authorization::{Action, ResourceAction};
use crate::identity::Identity;
use crate::status::ApiError;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The identity that a request wants to impersonate; `None` without impersonation.
///
/// # Errors
/// 400 for impersonation headers without a user, or that are not UTF-8.
pub(super) fn requested(headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    let mut identity = Identity::user(texts(headers, USER)?.next().unwrap_or_default());
    identity.groups = texts(headers, GROUP)?.collect();
    identity.uid = texts(headers, UID)?.next().unwrap_or_default();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let values = identity.extra.entry(super::query::decode(key, false)).or_default();
            values.extend(texts(headers, name.as_str())?);
        }
    }
    if !identity.user.is_empty() {
        return Ok(Some(identity));
    }
    if identity == Identity::user("") {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!(
        "requested {} without impersonating a user name",
        go_text(&identity)
    )))
}

/// The values of a header that are not empty. A value is never ignored because it cannot be decoded: the request would
/// have the rights of the caller.
fn texts(headers: &HeaderMap, name: &str) -> Result<impl Iterator<Item = String>, ApiError> {
    let values = headers.get_all(name).iter().map(|value| {
        std::str::from_utf8(value.as_bytes())
            .map(str::to_owned)
            .map_err(|_| ApiError::bad_request(format!("the header {name} is not UTF-8")))
    });
    let values: Vec<String> = values.collect::<Result<_, _>>()?;
    Ok(values.into_iter().filter(|text| !text.is_empty()))
}

/// Adds the groups that the user name implies.
pub(super) fn completed(mut identity: Identity) -> Identity {
    if identity.groups.is_empty()
        && let Some((namespace, name)) = account(&identity.user)
    {
        identity.groups = Identity::service_account(namespace, name).groups;
    }
    if identity.is_anonymous() {
        identity.groups.push("system:unauthenticated".to_owned());
    }
    identity.authenticated()
}

/// Whether the caller may perform `action` as another identity. `may` checks a permission of the caller and returns
/// the denial.
///
/// # Errors
/// 403.
pub(super) fn check(
    caller: &str,
    other: &Identity,
    action: &Action,
    may: impl Fn(&Action) -> Result<(), String>,
) -> Result<(), ApiError> {
    let demand = |action: Action| may(&action).map_err(|reason| action.refusal(caller, &reason));
    let constrained = constrained_permissions(other, action).into_iter().try_for_each(demand);
    // The response contains the denial of the alternative that was tried first.
    constrained.or_else(|refusal| {
        legacy_permissions(other)
            .into_iter()
            .try_for_each(demand)
            .map_err(|_| refusal)
    })
}

/// The permissions for legacy impersonation, the user first.
fn legacy_permissions(other: &Identity) -> Vec<Action> {
    let user = match account(&other.user) {
        Some((namespace, name)) => part("impersonate", "", "serviceaccounts", namespace, name),
        None => part("impersonate", "", "users", "", &other.user),
    };
    let mut demands = vec![user];
    let groups = other.groups.iter();
    demands.extend(groups.map(|group| part("impersonate", "", "groups", "", group)));
    demands.extend(attributes("impersonate", other));
    demands
}

/// The permissions for constrained impersonation, the request first.
fn constrained_permissions(other: &Identity, action: &Action) -> Vec<Action> {
    let (mode, user) = if let Some((namespace, name)) = account(&other.user) {
        ("serviceaccount", ("serviceaccounts", namespace, name))
    } else if let Some(node) = other.user.strip_prefix(NODE) {
        ("arbitrary-node", ("nodes", "", node))
    } else {
        ("user-info", ("users", "", other.user.as_str()))
    };
    let mut on = action.clone();
    match &mut on {
        Action::Resource(ResourceAction { verb, .. }) | Action::Path { verb, .. } => {
            *verb = format!("impersonate-on:{mode}:{verb}");
        }
    }
    let verb = format!("impersonate:{mode}");
    let (resource, namespace, name) = user;
    let mut demands = vec![on, part(&verb, AUTHENTICATION, resource, namespace, name)];
    if mode == "user-info" {
        let groups = other.groups.iter();
        demands.extend(groups.map(|group| part(&verb, AUTHENTICATION, "groups", "", group)));
        demands.extend(attributes(&verb, other));
    }
    demands
}

fn attributes(verb: &str, other: &Identity) -> Vec<Action> {
    let mut demands = Vec::new();
    for (key, values) in &other.extra {
        for value in values {
            let mut demand = part(verb, AUTHENTICATION, "userextras", "", value);
            if let Action::Resource(demand) = &mut demand {
                demand.subresource.clone_from(key);
            }
            demands.push(demand);
        }
    }
    if !other.uid.is_empty() {
        demands.push(part(verb, AUTHENTICATION, "uids", "", &other.uid));
    }
    demands
}

fn part(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Action {
    Action::Resource(ResourceAction {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: String::new(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The namespace and name in the user name of a service account.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The identity as Go formats it in the denial.
fn go_text(identity: &Identity) -> String {
    let texts = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let groups = if identity.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        texts(&identity.groups)
    };
    let extra = if identity.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let pairs = identity
            .extra
            .iter()
            .map(|(key, values)| format!("{key:?}:{}", texts(values)));
        format!("map[string][]string{{{}}}", pairs.collect::<Vec<_>>().join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}",
        identity.user, identity.uid
    )
}
