//! The programs, linked statically, and the images that hold nothing else.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testcontainers::runners::AsyncBuilder;
use testcontainers::{GenericBuildableImage, GenericImage};
use tokio::sync::OnceCell;

/// Tags of the images of mcm and fakecloud, named by what is in them.
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
    let programs = compile();
    [
        image("mcm", MCM, &programs).await,
        image("fakecloud", FAKECLOUD, &programs).await,
    ]
}

async fn image(name: &str, dockerfile: &str, programs: &[PathBuf]) -> String {
    let program = programs.iter().find(|path| path.ends_with(name)).unwrap();
    let mut hash = DefaultHasher::new();
    (std::fs::read(program).unwrap(), dockerfile).hash(&mut hash);
    let tag = format!("{:016x}", hash.finish());
    GenericBuildableImage::new(format!("drydock/{name}"), &tag)
        .with_dockerfile_string(dockerfile)
        .with_file(program, name)
        .build_image()
        .await
        .map(drop)
        .unwrap_or_else(|error| {
            panic!(
                "the image of {name} cannot be built: {error}; these tests need a Docker engine that answers at \
                 DOCKER_HOST or /var/run/docker.sock"
            )
        });
    tag
}

/// As the kind stage compiles them.
fn compile() -> Vec<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--offline",
            "--profile",
            "image",
            "--target",
            &target,
        ])
        .args([
            "-p",
            "mcm",
            "-p",
            "fakecloud",
            "--bins",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).unwrap();
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect()
}
