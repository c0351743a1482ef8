//! What a request is for, in the terms of upstream's labels.

/// What a request is for. All texts are from a fixed set, or those of a served resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target<'a> {
    /// For example `GET`, `LIST`, `WATCH`, `POST` or `APPLY`.
    pub(crate) verb: &'static str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    /// A subresource, or a path such as `/healthz`.
    pub(crate) subresource: &'a str,
    /// `resource` for one object, `namespace`, `cluster`, or empty.
    pub(crate) scope: &'static str,
}

impl<'a> Target<'a> {
    /// A target that is no served resource.
    pub(crate) fn unknown(verb: &'static str) -> Self {
        Self {
            verb,
            group: "",
            version: "",
            resource: "",
            subresource: "",
            scope: "",
        }
    }

    /// Upstream's labels.
    pub(super) fn labels(&self) -> [(&'static str, &'a str); 6] {
        [
            ("group", self.group),
            ("resource", self.resource),
            ("scope", self.scope),
            ("subresource", self.subresource),
            ("verb", self.verb),
            ("version", self.version),
        ]
    }
}
