//! The images of the programs that `make build` built.

use std::collections::hash_map::DefaultHasher;
use std::fs::Permissions;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::PermissionsExt;

use stage::child::beside;
use stage::kind::image_files;
use testcontainers::runners::AsyncBuilder;
use testcontainers::{GenericBuildableImage, GenericImage};
use tokio::sync::OnceCell;

/// Tags of the images of mcm and fakecloud, by their content.
static TAGS: OnceCell<[String; 2]> = OnceCell::const_new();

const MCM: &str = include_str!("../../../deploy/images/mcm.Dockerfile");
const FAKECLOUD: &str = include_str!("../../../deploy/images/fakecloud.Dockerfile");

/// The image of mcm.
pub async fn mcm() -> GenericImage {
    let [tag, _] = TAGS.get_or_init(build).await;
    GenericImage::new("drydock/mcm", tag)
}

/// The image of fakecloud.
pub async fn fakecloud() -> GenericImage {
    let [_, tag] = TAGS.get_or_init(build).await;
    GenericImage::new("drydock/fakecloud", tag)
}

async fn build() -> [String; 2] {
    [image("mcm", MCM).await, image("fakecloud", FAKECLOUD).await]
}

/// Builds the image as stage kind does.
async fn image(name: &str, dockerfile: &str) -> String {
    let program = beside(name).unwrap();
    let files = image_files(name, &program).await.unwrap();
    let mut hash = DefaultHasher::new();
    (&files, dockerfile).hash(&mut hash);
    let tag = format!("{:016x}", hash.finish());
    let mut image = GenericBuildableImage::new(format!("drydock/{name}"), &tag).with_dockerfile_string(dockerfile);
    let folder = tempfile::tempdir().unwrap();
    for (number, (path, content)) in files.into_iter().enumerate() {
        let file = folder.path().join(number.to_string());
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        image = image.with_file(file, format!("root/{path}"));
    }
    image.build_image().await.map(drop).unwrap_or_else(|error| {
        panic!(
            "the image of {name} cannot be built: {error}; these tests need a Docker engine that answers at \
             DOCKER_HOST or /var/run/docker.sock"
        )
    });
    tag
}
