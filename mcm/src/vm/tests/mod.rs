//! Tables of flags, files and results, and the calls of each command.

mod calls;
mod input;
mod output;

use clap::{Command, FromArgMatches, Subcommand};
use request_files::Source;

use super::input::{MachineSource, Sources};
use super::options::VmCommand;

/// A credential that must not appear in any output.
const PLANTED: &str = "planted-credential";

const CLASS: &str = "
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: {name: small, namespace: garden}
provider: fake
providerSpec: {zone: z1}
secretRef: {name: user-data, namespace: garden}
credentialsSecretRef: {name: cloud, namespace: garden}
";

const USER_DATA: &str = "
apiVersion: v1
kind: Secret
metadata: {name: user-data, namespace: garden}
stringData: {userData: join, token: overridden}
";

/// `token` is `planted-credential`.
const CREDENTIALS: &str = "
apiVersion: v1
kind: Secret
metadata: {name: cloud}
data: {token: cGxhbnRlZC1jcmVkZW50aWFs}
";

const MACHINE: &str = "
apiVersion: machine.sapcloud.io/v1alpha1
kind: Machine
metadata: {name: m-1, namespace: garden, uid: u-1}
spec:
  class: {kind: MachineClass, name: small}
  providerID: fake:///m-1
";

fn source(path: &str, text: &str) -> Source {
    Source {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

/// Valid files, with a machine of that name.
fn sources(name: &str) -> Sources {
    Sources {
        class: Some(source("class.yaml", CLASS)),
        secrets: vec![source("data.yaml", USER_DATA), source("cloud.yaml", CREDENTIALS)],
        machine: Some(MachineSource {
            name: Some(name.to_owned()),
            ..MachineSource::default()
        }),
    }
}

/// Valid files with that one for the machine.
fn with_machine_file(text: &str) -> Sources {
    let machine = MachineSource {
        file: Some(source("machine.yaml", text)),
        ..MachineSource::default()
    };
    Sources {
        machine: Some(machine),
        ..sources("")
    }
}

fn parse(arguments: &[&str]) -> VmCommand {
    let command = VmCommand::augment_subcommands(Command::new("vm"));
    let arguments = std::iter::once("vm").chain(arguments.iter().copied());
    VmCommand::from_arg_matches(&command.try_get_matches_from(arguments).unwrap()).unwrap()
}
