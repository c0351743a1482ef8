//! Who a client is.

use std::collections::BTreeMap;

pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What tells users of one name apart; empty where nothing does.
    pub uid: String,
    /// More about the user, by key.
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

    /// A service account, with the name and the groups that a token of it gives. It has no uid, so it
    /// also stands for an account that does not exist yet.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
            ..Self::user(format!("system:serviceaccount:{namespace}:{name}"))
        }
    }

    /// A user who did not say who it is.
    pub(crate) fn anonymous() -> Self {
        Self {
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::user(ANONYMOUS)
        }
    }

    /// Whether it is nobody in particular.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// With the group of everybody who is known.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The user that may do everything.
    pub fn admin() -> Self {
        Self {
            groups: vec!["system:masters".to_owned()],
            ..Self::user("kubernetes-admin")
        }
    }
}
