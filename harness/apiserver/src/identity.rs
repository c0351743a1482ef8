//! Client identities.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// The identity of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Distinguishes users of the same name; empty if unknown.
    pub uid: String,
    /// Extra attributes by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A user without groups.
    pub fn user(name: impl Into<String>) -> Self {
        Self {
            user: name.into(),
            groups: Vec::new(),
            uid: String::new(),
            extra: BTreeMap::new(),
        }
    }

    /// A service account with the user name and groups of its tokens. It has no uid, so it can also represent an
    /// account that does not exist yet.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
            ..Self::user(format!("system:serviceaccount:{namespace}:{name}"))
        }
    }

    /// An unauthenticated user.
    pub(crate) fn anonymous() -> Self {
        Self {
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::user(ANONYMOUS)
        }
    }

    /// Whether the user is unauthenticated.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// Adds the group of all authenticated users.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The user as in reviews.
    pub(crate) fn info(&self) -> Value {
        let mut info = json!({ "username": self.user, "groups": self.groups });
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }

    /// The user with all permissions.
    pub fn admin() -> Self {
        Self {
            groups: vec!["system:masters".to_owned()],
            ..Self::user("kubernetes-admin")
        }
    }
}
