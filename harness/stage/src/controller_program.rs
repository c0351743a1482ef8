//! The program of a controller: its command, and its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mcm_api::GoDuration;
use scenario::{McmSettings, Named, Timeouts};

use super::child::Program;
use super::replicas::Recipe;
use super::setup::{self, Kubeconfigs};

/// The controller of the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// The mcm of this workspace.
    Mcm,
    /// A shell command with the environment variables of docs/reference/environment.md.
    Command(String),
    /// None: the user starts one.
    None,
}

/// Paths, addresses and settings that a controller needs.
#[derive(Debug)]
pub(super) struct Places<'a> {
    /// The mcm executable.
    pub(super) mcm: PathBuf,
    /// Values of the named durations.
    pub(super) timeouts: &'a Timeouts,
    /// The namespace of machines.
    pub(super) namespace: &'a str,
    /// The settings of mcm that the world changes.
    pub(super) mcm_settings: McmSettings,
    /// The kubeconfigs of the API servers.
    pub(super) kubeconfigs: &'a Kubeconfigs,
    /// HOST:PORT of the driver.
    pub(super) driver: &'a str,
    /// Whether drivers register with mcm, instead of mcm connecting to the driver.
    pub(super) registration: bool,
    /// The folder for logs.
    pub(super) folder: &'a Path,
}

impl Controller {
    /// The recipe of a replica; `None` without a controller.
    pub(super) fn recipe(self, places: &Places) -> Option<Recipe> {
        let ours = self == Self::Mcm;
        let (name, command): (&str, Vec<OsString>) = match self {
            Self::None => return None,
            Self::Mcm => {
                let Places {
                    timeouts,
                    namespace,
                    mcm_settings,
                    kubeconfigs,
                    driver,
                    registration,
                    ..
                } = places;
                let arguments = setup::mcm_arguments(timeouts, namespace, *mcm_settings, kubeconfigs);
                let driver = (!registration).then(|| format!("--driver=grpc://{driver}").into());
                let program = places.mcm.clone().into_os_string();
                ("mcm", std::iter::once(program).chain(arguments).chain(driver).collect())
            }
            Self::Command(command) => ("the controller", vec!["/bin/sh".into(), "-c".into(), command.into()]),
        };
        Some(Recipe {
            program: Program {
                name: name.to_owned(),
                command,
                environment: environment(places),
                log: places.folder.join("mcm.log"),
            },
            ours,
            registration: ours && places.registration,
        })
    }
}

/// The environment variables of a controller: how it reaches the clusters and the cloud, and the stage's values of the
/// named durations, in the notation of Go.
fn environment(places: &Places) -> Vec<(String, OsString)> {
    let settings = [
        ("KUBECONFIG", places.kubeconfigs.control.clone().into()),
        ("TARGET_KUBECONFIG", places.kubeconfigs.target.clone().into()),
        ("FAKECLOUD_ADDRESS", places.driver.into()),
        ("DRYDOCK_NAMESPACE", places.namespace.into()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let durations = Named::ALL.into_iter().map(|named| {
        let value = GoDuration(places.timeouts.get(named));
        (variable(named), value.to_string().into())
    });
    settings.into_iter().chain(durations).collect()
}

/// The environment variable with the value of a named duration: `DRYDOCK_HEALTH_TIMEOUT` for `healthTimeout`.
fn variable(named: Named) -> String {
    let mut variable = "DRYDOCK_".to_owned();
    for letter in named.name().chars() {
        if letter.is_uppercase() {
            variable.push('_');
        }
        variable.push(letter.to_ascii_uppercase());
    }
    variable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_gets_the_durations_of_its_stage() {
        let timeouts = Timeouts::short();
        let kubeconfigs = Kubeconfigs {
            control: "control".into(),
            target: "target".into(),
        };
        let places = Places {
            mcm: PathBuf::new(),
            timeouts: &timeouts,
            namespace: "default",
            mcm_settings: McmSettings::default(),
            kubeconfigs: &kubeconfigs,
            driver: "127.0.0.1:1",
            registration: false,
            folder: Path::new("."),
        };
        let environment = environment(&places);
        let value = |name: &str| {
            let found = environment.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.to_str()).unwrap_or("missing")
        };
        assert_eq!(value("DRYDOCK_HEALTH_TIMEOUT"), "6s");
        assert_eq!(value("DRYDOCK_BOOT_DELAY"), "300ms");
        assert_eq!(value("KUBECONFIG"), "control");
        let documented = include_str!("../../../docs/reference/environment.md");
        for (name, _) in &environment {
            assert!(
                documented.contains(&format!("`{name}`")),
                "docs/reference/environment.md lacks {name}"
            );
        }
    }
}
