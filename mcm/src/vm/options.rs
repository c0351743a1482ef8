//! The commands and flags of `mcm vm`, and the files that they name.

use clap::{Args, Subcommand, ValueEnum};
use mcm_api::GoDuration;
use mcm_driver::tls::Tls;
use request_files::Source;

use super::error::InputError;
use super::input::{Action, MachineSource, Sources};
use crate::options::DriverTlsOptions;

/// A command about VMs.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum VmCommand {
    /// Create the VM of a machine, or find the existing one (CreateMachine)
    #[command(
        after_help = "Example:\n  mcm vm create --driver grpc://127.0.0.1:7300 --class class.yaml --secret secret.yaml --machine-name m-1"
    )]
    Create(MachineFlags),
    /// Look up the VM of a machine (GetMachineStatus)
    #[command(
        after_help = "Example:\n  mcm vm status --driver grpc://127.0.0.1:7300 --class class.yaml --secret secret.yaml --machine-name m-1 -o json"
    )]
    Status(MachineFlags),
    /// List the VMs of a class (ListMachines)
    #[command(
        after_help = "Example:\n  mcm vm list --driver grpc://127.0.0.1:7300 --class class.yaml --secret secret.yaml"
    )]
    List(ClassFlags),
    /// Complete the VM of a machine after its creation (InitializeMachine)
    #[command(
        after_help = "Example:\n  mcm vm initialize --driver grpc://127.0.0.1:7300 --class class.yaml --secret secret.yaml --machine machine.yaml"
    )]
    Initialize(MachineFlags),
    /// Switch off the VM of a machine and keep it (StopMachine)
    #[command(
        after_help = "Example:\n  mcm vm stop --driver grpc://127.0.0.1:7300 --class class.yaml --secret secret.yaml --machine-name m-1"
    )]
    Stop(MachineFlags),
    /// Delete the VM of a machine; succeeds if there is none (DeleteMachine)
    #[command(
        after_help = "Example:\n  mcm vm delete --driver grpc://127.0.0.1:7300 --class class.yaml --secret secret.yaml --machine-name m-1"
    )]
    Delete(MachineFlags),
}

/// Flags of all commands.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct ClassFlags {
    /// Address of the cloud's driver: grpc://HOST:PORT on loopback, grpcs://HOST:PORT anywhere
    #[arg(long, value_name = "ADDRESS")]
    pub driver: Option<String>,

    /// The MachineClass (YAML or JSON)
    #[arg(long, value_name = "FILE")]
    pub class: Option<String>,

    /// A Secret that the class names (YAML or JSON); repeat it if the class names two
    #[arg(long = "secret", value_name = "FILE")]
    pub secrets: Vec<String>,

    /// How long a call may take (duration); by default 10m for create and 2m for the others, as in the controller
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<GoDuration>,

    /// Format of the result
    #[arg(long, short = 'o', value_enum, default_value_t)]
    pub output: OutputFormat,

    /// TLS to the driver.
    #[command(flatten)]
    pub driver_tls: DriverTlsOptions,
}

/// Flags of the commands about one machine.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct MachineFlags {
    /// The flags of all commands.
    #[command(flatten)]
    pub class: ClassFlags,

    /// The Machine (YAML or JSON), instead of --machine-name
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub machine: Option<String>,

    /// Name of the machine
    #[arg(long, value_name = "NAME", help_heading = "Machine")]
    pub machine_name: Option<String>,

    /// Namespace of --machine-name; by default that of the class
    #[arg(long, value_name = "NAMESPACE", help_heading = "Machine")]
    pub namespace: Option<String>,

    /// Provider id of the VM; by default spec.providerID of --machine
    #[arg(long, value_name = "ID", help_heading = "Machine")]
    pub provider_id: Option<String>,
}

/// The format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// One line, or a table.
    #[default]
    Text,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl VmCommand {
    /// The flags of all commands.
    pub(super) fn class(&self) -> &ClassFlags {
        match self {
            Self::List(class) => class,
            Self::Create(machine)
            | Self::Status(machine)
            | Self::Initialize(machine)
            | Self::Stop(machine)
            | Self::Delete(machine) => &machine.class,
        }
    }

    pub(super) fn action(&self) -> Action {
        match self {
            Self::Create(_) => Action::Create,
            Self::Status(_) => Action::Status,
            Self::List(_) => Action::List,
            Self::Initialize(_) => Action::Initialize,
            Self::Stop(_) => Action::Stop,
            Self::Delete(_) => Action::Delete,
        }
    }

    /// Reads the files that the flags name.
    pub(super) fn sources(&self) -> Result<Sources, InputError> {
        let class = self.class();
        let machine = match self {
            Self::List(_) => None,
            Self::Create(machine)
            | Self::Status(machine)
            | Self::Initialize(machine)
            | Self::Stop(machine)
            | Self::Delete(machine) => Some(machine.source()?),
        };
        Ok(Sources {
            class: class
                .class
                .as_deref()
                .map(|path| Source::read("--class", path))
                .transpose()?,
            secrets: class
                .secrets
                .iter()
                .map(|path| Source::read("--secret", path))
                .collect::<Result<_, _>>()?,
            machine,
        })
    }
}

impl ClassFlags {
    /// The address of the driver, and the TLS configuration; `None`: without TLS.
    pub(super) fn connection(&self) -> Result<(String, Option<Tls>), InputError> {
        let Some(driver) = self.driver.clone().filter(|driver| !driver.is_empty()) else {
            return Err(InputError::Missing {
                flag: "--driver",
                fix: "give the address of the cloud's driver as grpc://HOST:PORT or grpcs://HOST:PORT".to_owned(),
            });
        };
        if self.timeout.is_some_and(|timeout| timeout.0.is_zero()) {
            return Err(InputError::Value {
                flag: "--timeout",
                value: "0s".to_owned(),
                reason: "no call can succeed: choose 1s or more".to_owned(),
            });
        }
        let tls = self.driver_tls.validate(&driver)?;
        Ok((driver, tls))
    }
}

impl MachineFlags {
    fn source(&self) -> Result<MachineSource, InputError> {
        let file = self
            .machine
            .as_deref()
            .map(|path| Source::read("--machine", path))
            .transpose()?;
        Ok(MachineSource {
            file,
            name: self.machine_name.clone(),
            namespace: self.namespace.clone(),
            provider_id: self.provider_id.clone(),
        })
    }
}
