//! Where a walk through an object is, kept on the stack and written out only for messages.

use std::fmt;

/// A place in an object; prints as `spec.containers[0].name`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    /// The object itself.
    Root,
    /// A member.
    Field(&'a Path<'a>, &'a str),
    /// A list's item.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// A member of this.
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    /// An item of this.
    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// The field names without indexes, as upstream's decoder names fields.
    pub(crate) fn names(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Index(parent, _) => parent.names(),
            Self::Field(parent, name) => match parent.names() {
                parent if parent.is_empty() => (*name).to_owned(),
                parent => format!("{parent}.{name}"),
            },
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_as_in_messages() {
        let root = Path::Root;
        let spec = root.field("spec");
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("name").to_string(), "spec.containers[0].name");
        assert_eq!(first.field("name").names(), "spec.containers.name");
        assert_eq!(root.field("kind").to_string(), "kind");
        assert_eq!(root.to_string(), "");
    }
}
