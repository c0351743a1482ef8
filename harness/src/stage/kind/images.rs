//! The images of mcm and fakecloud: from the sources of this workspace, linked statically, with nothing else in them.
//!
//! What must not live here: how they get to a cluster's nodes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::docker::Engine;
use super::tar;
use super::tools::Call;

/// How long the programs may take to be compiled, dependencies included.
const COMPILE_LIMIT: Duration = Duration::from_mins(20);

/// How many bytes of the content's hash name an image.
const TAG_BYTES: usize = 6;
/// How many images of each program stay in the engine.
const KEPT: usize = 2;

const DOCKERFILES: [(&str, &str); 2] = [
    ("mcm", include_str!("../../../../deploy/images/mcm.Dockerfile")),
    (
        "fakecloud",
        include_str!("../../../../deploy/images/fakecloud.Dockerfile"),
    ),
];

/// The images of the two programs. Each is built where it is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageNames {
    /// Of mcm.
    pub mcm: Option<String>,
    /// Of fakecloud.
    pub fakecloud: Option<String>,
}

impl ImageNames {
    /// Checks that the engine has the images that are given, from where they are copied to the nodes.
    ///
    /// # Errors
    /// One line with the first that it does not have, and how to get it.
    pub(super) async fn check(&self, engine: &Engine) -> Result<(), String> {
        for image in [&self.mcm, &self.fakecloud].into_iter().flatten() {
            if !engine.has_image(image).await {
                return Err(format!(
                    "the Docker engine has no image {image}, which --images names: build it or run docker pull {image}"
                ));
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for ImageNames {
    type Err = String;

    /// Reads `mcm=IMAGE,fakecloud=IMAGE`; either may be left out.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut names = Self::default();
        for part in text.split(',') {
            let image = |image: &str| Some(image.to_owned()).filter(|image| !image.is_empty());
            match part.split_once('=') {
                Some(("mcm", name)) => names.mcm = image(name),
                Some(("fakecloud", name)) => names.fakecloud = image(name),
                _ => return Err(format!("{part:?} names no image: write mcm=IMAGE,fakecloud=IMAGE")),
            }
        }
        Ok(names)
    }
}

/// The images that a cluster runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Images {
    pub(super) mcm: String,
    pub(super) fakecloud: String,
}

impl Images {
    /// Builds what is not given; an image whose content is there already is taken as it is.
    ///
    /// # Errors
    /// One line: what cannot be built, and what would do instead.
    pub(super) async fn build(given: &ImageNames, engine: &Engine, logs: &Path) -> Result<Self, String> {
        if let ImageNames {
            mcm: Some(mcm),
            fakecloud: Some(fakecloud),
        } = given
        {
            return Ok(Self {
                mcm: mcm.clone(),
                fakecloud: fakecloud.clone(),
            });
        }
        let programs = compile(logs).await?;
        let mut images = Vec::new();
        for ((name, dockerfile), given) in DOCKERFILES.into_iter().zip([&given.mcm, &given.fakecloud]) {
            images.push(match given {
                Some(image) => image.clone(),
                None => build(name, dockerfile, &programs, engine).await?,
            });
        }
        let fakecloud = images.pop().unwrap_or_default();
        let mcm = images.pop().unwrap_or_default();
        Ok(Self { mcm, fakecloud })
    }
}

/// Builds one image, named by its content.
async fn build(name: &str, dockerfile: &str, programs: &[PathBuf], engine: &Engine) -> Result<String, String> {
    let path = programs
        .iter()
        .find(|path| path.file_name().is_some_and(|file| file == name))
        .ok_or_else(|| format!("the build made no program {name}"))?;
    let program = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let context = tar::archive(&[("Dockerfile", 0o644, dockerfile.as_bytes()), (name, 0o755, &program)]);
    let image = format!("drydock/{name}:{}", content_tag(&context));
    if !engine.has_image(&image).await {
        engine.build(&image, context).await?;
        for old in outdated(
            &format!("drydock/{name}"),
            engine.tags(&format!("drydock/{name}")).await,
        ) {
            engine.remove_image(&old).await;
        }
    }
    Ok(image)
}

/// Which images of a repository go: those that are named as ours by their content, but for the newest, which another
/// session may be about to load. `images` begins with the newest.
fn outdated(repository: &str, images: Vec<String>) -> Vec<String> {
    let ours = |image: &String| {
        let tag = image.strip_prefix(repository).and_then(|rest| rest.strip_prefix(':'));
        tag.is_some_and(|tag| tag.len() == 2 * TAG_BYTES && tag.bytes().all(|letter| letter.is_ascii_hexdigit()))
    };
    images.into_iter().filter(ours).skip(KEPT).collect()
}

/// The first digits of the content's hash.
fn content_tag(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    hash.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Compiles both programs and returns their paths.
async fn compile(logs: &Path) -> Result<Vec<PathBuf>, String> {
    let instead = "give finished images with --images mcm=IMAGE,fakecloud=IMAGE";
    if !cfg!(target_os = "linux") {
        return Err(format!("the images' programs are compiled on Linux only: {instead}"));
    }
    let workspace = workspace().ok_or_else(|| {
        format!("Drydock's sources, from which the images are built, are neither where this program was built nor in this folder: {instead}")
    })?;
    let cargo = which::which("cargo").map_err(|_| {
        format!("the images cannot be built: the program cargo is not in PATH; install Rust, or {instead}")
    })?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command: Vec<OsString> = vec![cargo.into(), "build".into(), "--manifest-path".into()];
    command.push(workspace.join("Cargo.toml").into());
    command.extend(
        [
            "--profile",
            "image",
            "--target",
            &target,
            "-p",
            "mcm",
            "-p",
            "fakecloud",
        ]
        .map(OsString::from),
    );
    command.extend(["--bins", "--message-format", "json-render-diagnostics"].map(OsString::from));
    let output = Call {
        failing: "the images' programs cannot be compiled",
        command,
        environment: vec![
            ("RUSTFLAGS", Some("-C target-feature=+crt-static".into())),
            ("CARGO_ENCODED_RUSTFLAGS", None),
        ],
        log: logs.join("compile.log"),
        limit: COMPILE_LIMIT,
        orphans: None,
    }
    .run()
    .await?;
    Ok(executables(&output))
}

/// The programs that cargo says it made.
fn executables(messages: &str) -> Vec<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect()
}

/// The workspace that this program was built from, or that the current folder is in.
fn workspace() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned);
    let current = std::env::current_dir().unwrap_or_default();
    built
        .into_iter()
        .chain(current.ancestors().map(Path::to_owned))
        .find(|folder| {
            ["mcm", "fakecloud"]
                .iter()
                .all(|member| folder.join(member).join("Cargo.toml").is_file())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_from_the_command_line() {
        let names: ImageNames = "mcm=a/mcm:1,fakecloud=b".parse().unwrap();
        assert_eq!(names.mcm.as_deref(), Some("a/mcm:1"));
        assert_eq!(names.fakecloud.as_deref(), Some("b"));
        assert!("mcn=a".parse::<ImageNames>().unwrap_err().contains("mcn=a"));
    }

    #[test]
    fn cargo_tells_which_programs_it_made() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/mcm\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executables(messages), [PathBuf::from("/t/mcm")]);
    }

    #[test]
    fn the_two_newest_images_of_ours_stay_and_all_of_others() {
        let images = [
            "drydock/mcm:000000000003",
            "drydock/mcm:latest",
            "drydock/mcm:000000000002",
            "drydock/mcm:0000000000000001",
            "drydock/mcm:000000000001",
        ];
        let gone = outdated("drydock/mcm", images.map(str::to_owned).to_vec());
        assert_eq!(gone, ["drydock/mcm:000000000001"]);
    }

    #[test]
    fn the_same_content_has_the_same_tag() {
        let archive = |content: &[u8]| content_tag(&tar::archive(&[("mcm", 0o755, content)]));
        assert_eq!(archive(b"one"), archive(b"one"));
        assert_ne!(archive(b"one"), archive(b"two"));
        assert_eq!(archive(b"one").len(), 12);
    }
}
