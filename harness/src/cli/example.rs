//! `drydock example`: prints an example object of mcm's API.

use std::path::Path;

use clap::{Args, ValueEnum};

use super::Ended;
use super::output::print;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock example machine | kubectl apply -f -")]
pub(super) struct ExampleCommand {
    #[arg(value_enum)]
    name: Example,
}

/// An example, which is also a file of the folder `examples` of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Example {
    /// A Machine with its MachineClass and Secret
    Machine,
    /// A Secret for the class
    Secret,
    /// A MachineClass
    MachineClass,
    /// A MachineSet; needs the class and its Secret
    MachineSet,
    /// A MachineDeployment; needs the class and its Secret
    MachineDeployment,
    /// A MachineHealthCheck of the deployment's machines; needs `drydock up --with health-checks`
    MachineHealthCheck,
}

impl Example {
    fn text(self) -> &'static str {
        match self {
            Self::Machine => include_str!("../../../examples/machine.yaml"),
            Self::Secret => include_str!("../../../examples/secret.yaml"),
            Self::MachineClass => include_str!("../../../examples/machine-class.yaml"),
            Self::MachineSet => include_str!("../../../examples/machine-set.yaml"),
            Self::MachineDeployment => include_str!("../../../examples/machine-deployment.yaml"),
            Self::MachineHealthCheck => include_str!("../../../examples/machine-health-check.yaml"),
        }
    }
}

impl ExampleCommand {
    pub(super) fn execute(&self) -> Ended {
        print(self.name.text())
    }
}

/// A command that creates the example Machine in a namespace: from the file where there is one.
pub(super) fn creates_machine(namespace: &str) -> String {
    let file = "examples/machine.yaml";
    let exists = Path::new(file).exists();
    match (exists, namespace) {
        (true, "default") => format!("kubectl apply -f {file}"),
        (true, other) => format!("sed 's/namespace: default/namespace: {other}/' {file} | kubectl apply -f -"),
        (false, "default") => "drydock example machine | kubectl apply -f -".to_owned(),
        (false, other) => {
            format!("drydock example machine | sed 's/namespace: default/namespace: {other}/' | kubectl apply -f -")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_example_is_yaml_with_the_kind_of_its_name() {
        for example in Example::value_variants() {
            let name = example
                .to_possible_value()
                .map(|value| value.get_name().replace('-', ""));
            let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(example.text()).unwrap();
            let kinds = objects.iter().filter_map(|object| object["kind"].as_str());
            let kinds: Vec<String> = kinds.map(str::to_lowercase).collect();
            assert_eq!(kinds.last(), name.as_ref());
        }
    }
}
