//! The program `fakecloud` as a process, and its clients.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fakecloud::proto::cloud_client::CloudClient;
use k8s_openapi::ByteString;
use mcm_api::{Machine, MachineClass};
use mcm_driver::MachineRequest;
use mcm_driver::channel::channel;
use mcm_driver::client::GrpcDriver;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tonic::transport::Channel;

/// Timeout of every operation.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A running program; dropping the value kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// `HOST:PORT` of the driver API and, unless it has another address, of the control API.
    pub address: String,
    /// `SCHEME://HOST:PORT` of the control API, if it has an address of its own.
    pub control_address: Option<String>,
}

impl Process {
    /// Starts the program, and waits until it serves.
    pub async fn start(data: Option<&Path>, seed: u64) -> Self {
        let mut arguments = vec![format!("--seed={seed}")];
        arguments.extend(data.map(|data| format!("--data={}", data.display())));
        Self::start_with(&arguments).await
    }

    /// Starts the program with more arguments, and waits until it serves.
    pub async fn start_with(arguments: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fakecloud"));
        command.args([
            "serve",
            "--without-kubelets",
            "--address=127.0.0.1:0",
            "--boot-delay=0s",
        ]);
        command
            .args(arguments)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(LIMIT, lines.next_line()).await.unwrap().unwrap();
        let line = line.expect("the program ended before it served");
        let after = |text: &str| {
            let rest = line.split(text).nth(1)?;
            Some(rest.split(';').next()?.to_owned())
        };
        Self {
            child,
            address: after("fakecloud serves on ").unwrap(),
            control_address: after("control: "),
        }
    }

    /// Kills it (SIGKILL).
    pub async fn kill(mut self) {
        self.child.start_kill().unwrap();
        tokio::time::timeout(LIMIT, self.child.wait()).await.unwrap().unwrap();
    }

    pub fn channel(&self) -> Channel {
        channel(&format!("grpc://{}", self.address), None).unwrap()
    }

    pub fn driver(&self) -> GrpcDriver<Channel> {
        GrpcDriver::new(self.channel())
    }

    pub fn control(&self) -> CloudClient<Channel> {
        CloudClient::new(self.channel())
    }
}

/// A machine controller's request for a machine.
pub fn request(name: &str) -> MachineRequest {
    let mut class = MachineClass::default();
    class.metadata.name = Some("pool".to_owned());
    class.metadata.namespace = Some("default".to_owned());
    class.provider_spec = json!({
        "machineType": "small", "image": "linux-1", "zone": "local-1",
        "tags": {"kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1"},
    });
    let mut machine = Machine::default();
    machine.metadata.name = Some(name.to_owned());
    machine.metadata.namespace = Some("default".to_owned());
    machine.metadata.uid = Some(format!("uid-of-{name}"));
    let secret = [("apiToken".to_owned(), ByteString(b"any".to_vec()))];
    MachineRequest {
        machine,
        class,
        secret: secret.into(),
    }
}
