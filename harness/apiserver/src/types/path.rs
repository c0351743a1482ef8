//! The position of a walk through an object, kept on the stack and formatted only for messages.

use std::fmt;

/// A position in an object; formatted as `spec.containers[0].name`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of an object.
    Field(&'a Path<'a>, &'a str),
    /// An item of a list.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Self::Field(self, name)
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// The field names without indexes, as upstream's decoder formats them.
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
