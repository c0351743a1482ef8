//! Names of images.

/// Whether an image has no tag and no digest, or the tag `latest`.
pub(super) fn follows_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    !last.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
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
    #[case("nginx@sha256:0123", false)]
    fn untagged_images_are_always_pulled(#[case] image: &str, #[case] expected: bool) {
        assert_eq!(follows_latest(image), expected);
    }
}
