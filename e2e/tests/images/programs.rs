//! The images of the programs that `make build` built.

use stage::kind::build_images;
use tokio::sync::OnceCell;

/// The names of the images of mcm and fakecloud.
static IMAGES: OnceCell<[String; 2]> = OnceCell::const_new();

/// The image of mcm.
pub async fn mcm() -> &'static str {
    &IMAGES.get_or_init(build).await[0]
}

/// The image of fakecloud.
pub async fn fakecloud() -> &'static str {
    &IMAGES.get_or_init(build).await[1]
}

/// Builds the images as stage kind does.
async fn build() -> [String; 2] {
    build_images()
        .await
        .unwrap_or_else(|error| panic!("{error}; these tests need a Docker engine"))
}
