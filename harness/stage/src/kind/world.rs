//! The world of one scenario on the cluster: a namespace with both programs, as a [`Stage`].

use std::path::Path;

use clock::{Clock, LostTime};
use fakecloud::certificates::{Certificates, Subject};
use mcm_driver::channel::channel;
use mcm_driver::tls::{Tls, TlsFiles};
use scenario::step::{Crash, CrashNext, Process, ProcessAction};
use scenario::{Cloud, HealthChecks, McmSettings, Timeouts};
use serde_json::Value;

use super::KindError;
use super::cluster::Cluster;
use super::forward::Forward;
use super::manifests::{Settings, priority_class};
use super::pods::{FAKECLOUD, HEALTH_CHECK, MCM, Pods, REMEDIATION};
use super::renewals;
use crate::cloud::CloudClient;
use crate::cloud_config::cloud_config_file;
use crate::{Stage, StageError, deploy, setup};

/// The time from the last Lease renewal of a kubelet to Ready=Unknown, as set in `deploy/kind/cluster.yaml`.
pub const NODE_GRACE: std::time::Duration = std::time::Duration::from_secs(10);
/// The number of replicas of mcm in `deploy/`, which is the minimum on a real cluster.
const REPLICAS: u32 = 2;
/// The validity of certificates in days, which exceeds the duration of any run.
const CERTIFICATE_DAYS: u16 = 2;
/// The port of fakecloud's pods for the control API, as set in `deploy/fakecloud.yaml`.
const CONTROL_PORT: u16 = 7302;

/// What to deploy.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) namespace: &'a str,
    pub(super) cloud: &'a Cloud,
    pub(super) replicas: u32,
    pub(super) mcm_settings: McmSettings,
    /// Whether the example remediation controller runs.
    pub(super) remediation: bool,
    pub(super) seed: u64,
}

/// A namespace with both programs.
pub(super) struct World {
    clock: Clock,
    timeouts: Timeouts,
    client: kube::Client,
    namespace: String,
    cloud: CloudClient,
    cloud_tls: Tls,
    pods: Pods,
    forward: Forward,
    _renewals: tokio::task::JoinSet<()>,
}

impl World {
    /// Deploys everything into an existing namespace, and waits until it is ready.
    ///
    /// # Errors
    /// The object that the API server rejects, or the part that does not start.
    pub(super) async fn start(cluster: &Cluster, plan: &Plan<'_>) -> Result<Self, KindError> {
        let (client, namespace) = (cluster.client.clone(), plan.namespace);
        let clock = Clock::wall();
        let (late_renewals, measurement) = renewals::measure(&client).await?;
        let timeouts = Timeouts {
            lost: LostTime::measured().or(late_renewals),
            ..Timeouts::on_cluster(NODE_GRACE)
        };
        let replicas = plan.replicas.max(REPLICAS);
        let subject = Subject {
            name: FAKECLOUD.to_owned(),
            namespace: namespace.to_owned(),
            days: CERTIFICATE_DAYS,
        };
        let certificates = Certificates::issue(subject, clock.now())?;
        let config = cloud_config_file(plan.cloud, &timeouts)?;
        let settings = Settings {
            namespace,
            images: cluster.images()?,
            replicas,
            cloud: config,
            ledger: cluster.folder_on_nodes(namespace).await?,
            mcm_flags: setup::mcm_settings(&timeouts, namespace, plan.mcm_settings),
            cloud_flags: vec![format!("--seed={}", plan.seed)],
            health_check_flags: setup::health_check_settings(&timeouts, namespace, plan.mcm_settings),
        };

        deploy::apply(&client, &priority_class()?).await?;
        deploy::apply(&client, &deploy::rbac(namespace)?).await?;
        let secrets: Result<Vec<Value>, _> = certificates.secrets().iter().map(serde_json::to_value).collect();
        deploy::apply(&client, &secrets?).await?;
        deploy::apply(&client, &settings.cloud()?).await?;
        let pods = Pods::new(client.clone(), cluster.engine.clone(), namespace, replicas);
        // mcm exits if it does not reach the cloud, so fakecloud starts first.
        pods.ready(FAKECLOUD).await?;
        deploy::apply(&client, &settings.mcm()?).await?;
        pods.ready(MCM).await?;
        if plan.mcm_settings.health_checks == HealthChecks::Separate {
            deploy::apply(&client, &settings.health_checks()?).await?;
            pods.ready(HEALTH_CHECK).await?;
        }
        if plan.remediation {
            deploy::apply(&client, &settings.remediation()?).await?;
            pods.ready(REMEDIATION).await?;
        }

        let forward = Forward::start(client.clone(), namespace, FAKECLOUD, CONTROL_PORT).await?;
        let files = cluster.files(namespace)?;
        certificates.write(&files)?;
        let cloud_tls = control_files(&files);
        let channel = channel(&format!("grpcs://{}", forward.address()), Some(cloud_tls.clone()));
        Ok(Self {
            clock,
            timeouts,
            client,
            namespace: namespace.to_owned(),
            cloud: CloudClient::new(channel?),
            cloud_tls,
            pods,
            forward,
            _renewals: measurement,
        })
    }

    /// The local address of fakecloud's control API.
    pub(super) fn cloud_address(&self) -> std::net::SocketAddr {
        self.forward.address()
    }

    /// The TLS settings of a client of the control API.
    pub(super) fn cloud_tls(&self) -> Tls {
        self.cloud_tls.clone()
    }
}

/// The TLS settings of a control client with the certificates in `folder`.
fn control_files(folder: &Path) -> Tls {
    Tls {
        files: TlsFiles {
            ca: folder.join("ca.crt"),
            cert: folder.join("control.crt"),
            key: folder.join("control.key"),
        },
        server_name: Some(FAKECLOUD.to_owned()),
    }
}

impl Stage for World {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn client(&self) -> kube::Client {
        self.client.clone()
    }

    fn cloud(&self) -> CloudClient {
        self.cloud.clone()
    }

    async fn process(&mut self, process: Process, action: ProcessAction) -> Result<(), StageError> {
        match process {
            Process::Mcm => Ok(self.pods.perform(MCM, action).await?),
            Process::Fakecloud => Ok(self.pods.perform(FAKECLOUD, action).await?),
            Process::HealthChecks => Ok(self.pods.perform(HEALTH_CHECK, action).await?),
            Process::Remediation => Ok(self.pods.perform(REMEDIATION, action).await?),
            Process::Controllers | Process::Drivers => Err(StageError::NoProcess(process)),
        }
    }

    fn fault(&self, _: &str, _: &str) {}

    fn crash(&mut self, _: &Crash) -> Result<(), StageError> {
        Err(StageError::PodNotCounted)
    }

    fn crash_next(&mut self, _: &CrashNext) -> Result<Crash, StageError> {
        Err(StageError::PodNotCounted)
    }

    async fn failure(&mut self) -> String {
        self.pods.failure().await
    }
}
