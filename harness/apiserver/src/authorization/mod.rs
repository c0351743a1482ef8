//! Who may do what.

/// How a server decides who may do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Everybody who is known may do everything.
    #[default]
    AlwaysAllow,
    /// Roles and their bindings decide (RBAC); members of `system:masters` may do everything.
    Rbac,
}
