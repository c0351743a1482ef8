//! Builds the images of mcm and fakecloud, which contain only the programs from the folder of this executable and the
//! libraries that they are linked to.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::docker::{Engine, EngineError};
use super::{tar, tools};
use crate::child::{ChildError, beside};
use crate::run_folder::RunFolder;

/// The number of bytes of the content's hash in an image tag.
const TAG_BYTES: usize = 6;
/// The number of images of each program that stay in the engine.
const KEPT: usize = 2;

const DOCKERFILES: [(&str, &str); 2] = [
    ("mcm", include_str!("../../../../deploy/images/mcm.Dockerfile")),
    (
        "fakecloud",
        include_str!("../../../../deploy/images/fakecloud.Dockerfile"),
    ),
];

/// Errors of building or selecting the image of a program.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A part of `--images` names no image.
    #[error("{part:?} names no image: write mcm=IMAGE,fakecloud=IMAGE")]
    Syntax {
        /// The part.
        part: String,
    },
    /// The engine does not have a given image.
    #[error("the Docker engine has no image {image}, which --images names: build it or run docker pull {image}")]
    NotThere {
        /// The image.
        image: String,
    },
    /// The programs are not built for Linux.
    #[error("the programs here do not run on Linux: provide prebuilt images with --images mcm=IMAGE,fakecloud=IMAGE")]
    NotLinux,
    /// The program is not built.
    #[error(transparent)]
    Program(#[from] ChildError),
    /// A file for the image cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The libraries of the program cannot be listed.
    #[error("cannot find the libraries of {program} with ldd: {source}")]
    Libraries {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// A library that the program is linked to is missing.
    #[error("a library is missing: {line}")]
    MissingLibrary {
        /// The line of `ldd`.
        line: String,
    },
    /// The engine does not build the image.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The given images of the two programs. Missing ones are built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageNames {
    /// Image of mcm.
    pub mcm: Option<String>,
    /// Image of fakecloud.
    pub fakecloud: Option<String>,
}

impl ImageNames {
    /// Checks that the engine has the given images, which are copied from there to the nodes.
    ///
    /// # Errors
    /// The first missing image.
    pub(super) async fn check(&self, engine: &Engine) -> Result<(), ImageError> {
        for image in [&self.mcm, &self.fakecloud].into_iter().flatten() {
            if !engine.has_image(image).await {
                return Err(ImageError::NotThere { image: image.clone() });
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for ImageNames {
    type Err = ImageError;

    /// Parses `mcm=IMAGE,fakecloud=IMAGE`. Either part is optional.
    fn from_str(text: &str) -> Result<Self, ImageError> {
        let mut names = Self::default();
        for part in text.split(',') {
            let image = |image: &str| Some(image.to_owned()).filter(|image| !image.is_empty());
            match part.split_once('=') {
                Some(("mcm", name)) => names.mcm = image(name),
                Some(("fakecloud", name)) => names.fakecloud = image(name),
                _ => return Err(ImageError::Syntax { part: part.to_owned() }),
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
    /// Builds the images that are not given. Reuses an image with the same content.
    ///
    /// # Errors
    /// The image that cannot be built, and an alternative.
    pub(super) async fn build(given: &ImageNames, engine: &Engine) -> Result<Self, ImageError> {
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
        let mut images = Vec::new();
        for ((name, dockerfile), given) in DOCKERFILES.into_iter().zip([&given.mcm, &given.fakecloud]) {
            images.push(match given {
                Some(image) => image.clone(),
                None => build(name, dockerfile, engine).await?,
            });
        }
        let fakecloud = images.pop().unwrap_or_default();
        let mcm = images.pop().unwrap_or_default();
        Ok(Self { mcm, fakecloud })
    }
}

/// Builds the images of mcm and fakecloud from the programs beside this one; returns their names. Reuses an image with the
/// same content.
///
/// # Errors
/// If no Docker engine responds, or the image that cannot be built.
pub async fn build_images() -> Result<[String; 2], ImageError> {
    let Images { mcm, fakecloud } = Images::build(&ImageNames::default(), &Engine::connect().await?).await?;
    Ok([mcm, fakecloud])
}

/// Builds one image with a tag that is derived from its content.
async fn build(name: &str, dockerfile: &str, engine: &Engine) -> Result<String, ImageError> {
    let mut context = vec![("Dockerfile".to_owned(), 0o644, dockerfile.as_bytes().to_vec())];
    for (path, content) in files(name, &beside(name)?).await? {
        context.push((format!("root/{path}"), 0o755, content));
    }
    let context = tar::archive(&context);
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

/// The files in an image of a program, by path: the program, and the libraries that it is linked to.
///
/// # Errors
/// The file that cannot be read.
async fn files(name: &str, program: &Path) -> Result<Vec<(String, Vec<u8>)>, ImageError> {
    if !cfg!(target_os = "linux") {
        return Err(ImageError::NotLinux);
    }
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| ImageError::Read {
            path: path.to_owned(),
            source,
        })
    };
    let mut files = vec![(
        name.to_owned(),
        stripped(program).await.map_or_else(|| read(program), Ok)?,
    )];
    let linked = tools::output(Command::new("ldd").arg(program).env("LC_ALL", "C")).await;
    let linked = linked.map_err(|source| ImageError::Libraries {
        program: name.to_owned(),
        source,
    })?;
    for library in libraries(&String::from_utf8_lossy(&linked.stdout))? {
        files.push((library.trim_start_matches('/').to_owned(), read(Path::new(&library))?));
    }
    Ok(files)
}

/// The program without its symbols, a tenth of its size. `None` if `strip` is not available.
async fn stripped(program: &Path) -> Option<Vec<u8>> {
    let folder = RunFolder::new().ok()?;
    let copy = folder.path().join("program");
    let strip = tools::output(Command::new("strip").arg("-o").arg(&copy).arg(program)).await;
    strip.ok().filter(|output| output.status.success())?;
    std::fs::read(copy).ok()
}

/// Parses the paths in the output of `ldd`. Empty for a statically linked program.
fn libraries(printed: &str) -> Result<Vec<String>, ImageError> {
    let mut paths = Vec::new();
    for line in printed.lines().map(str::trim) {
        let place = line.split_once(" => ").map_or(line, |(_, place)| place);
        if place == "not found" {
            return Err(ImageError::MissingLibrary { line: line.to_owned() });
        }
        let path = place.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            paths.push(path.to_owned());
        }
    }
    Ok(paths)
}

/// The images of a repository to remove: those with a content tag, except for the newest, which another session may be
/// about to load. `images` is sorted, newest first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_are_parsed() {
        let names: ImageNames = "mcm=a/mcm:1,fakecloud=b".parse().unwrap();
        assert_eq!(names.mcm.as_deref(), Some("a/mcm:1"));
        assert_eq!(names.fakecloud.as_deref(), Some("b"));
        assert!("mcn=a".parse::<ImageNames>().unwrap_err().to_string().contains("mcn=a"));
    }

    #[test]
    fn libraries_are_parsed_from_the_output_of_ldd() {
        let printed = "\tlinux-vdso.so.1 (0x00007f8d)\n\
                       \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f8d)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f8d)\n";
        assert_eq!(
            libraries(printed).unwrap(),
            ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
        assert_eq!(libraries("\tstatically linked\n").unwrap(), Vec::<String>::new());
        let missing = libraries("\tlibodd.so.1 => not found\n").unwrap_err().to_string();
        assert!(missing.contains("libodd.so.1"), "{missing}");
    }

    #[test]
    fn only_content_tagged_images_after_the_two_newest_are_outdated() {
        let images = [
            "drydock/mcm:000000000003",
            "drydock/mcm:latest",
            "drydock/mcm:000000000002",
            "drydock/mcm:0000000000000001",
            "drydock/mcm:000000000001",
        ];
        let removed = outdated("drydock/mcm", images.map(str::to_owned).to_vec());
        assert_eq!(removed, ["drydock/mcm:000000000001"]);
    }

    #[test]
    fn equal_content_has_equal_tags() {
        let archive = |content: &[u8]| content_tag(&tar::archive(&[("mcm".to_owned(), 0o755, content.to_vec())]));
        assert_eq!(archive(b"one"), archive(b"one"));
        assert_ne!(archive(b"one"), archive(b"two"));
        assert_eq!(archive(b"one").len(), 12);
    }
}
