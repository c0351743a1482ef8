//! Names of images.

use std::sync::LazyLock;

use regex::Regex;

/// A name of the distribution project: repository, tag and digest.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let host = "(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\\[[a-fA-F0-9:]+\\])";
    let part = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    Regex::new(&format!(
        "^(?:{host}(?::[0-9]+)?/)?{part}(?:/{part})*(?::([A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?(@{digest})?$"
    ))
    .ok()
});

/// Whether an image has no tag and no digest, or the tag `latest`. A text that is no name has none of them, and is never
/// `latest`.
pub(super) fn follows_latest(image: &str) -> bool {
    let Some(found) = REFERENCE.as_ref().and_then(|pattern| pattern.captures(image)) else {
        return false;
    };
    match (found.get(1), found.get(2)) {
        (Some(tag), _) => tag.as_str() == "latest",
        (None, digest) => digest.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("nginx", true)]
    #[case("nginx:latest", true)]
    #[case("nginx:1.2", false)]
    #[case("localhost:5000/nginx", true)]
    #[case("localhost:5000/nginx:1", false)]
    #[case(
        "nginx@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        false
    )]
    #[case(
        "nginx:latest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        true
    )]
    #[case("ko://example.com/cmd/activator", false)]
    #[case("example.com/Upper", false)]
    #[case("Example.com/lower", true)]
    #[case("", false)]
    fn untagged_images_are_always_pulled(#[case] image: &str, #[case] expected: bool) {
        assert_eq!(follows_latest(image), expected);
    }
}
