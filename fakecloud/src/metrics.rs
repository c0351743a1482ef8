//! Metrics of a fake cloud, in a separate registry.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use kube::Client;
use kube::client::Body;
use mcm_api::cloud::{Code, DriverError, VmIdentity};
use mcm_api::{MachineClass, MachineName, ProviderId};
use mcm_driver::{Driver, MachineRequest};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::Fakecloud;
use crate::model::VmState;

/// User agent of the kubelets' requests.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("fakecloud/", env!("CARGO_PKG_VERSION")));
const STATES: [(VmState, &str); 5] = [
    (VmState::Pending, "pending"),
    (VmState::Running, "running"),
    (VmState::Stopped, "stopped"),
    (VmState::Stopping, "stopping"),
    (VmState::Terminated, "terminated"),
];

/// All metrics of one fake cloud. Clones share them.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    calls: Family<CallLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    call: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    code: u16,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Metrics of `cloud`, with all counters at zero.
    pub(crate) fn new(cloud: Fakecloud) -> Self {
        let (calls, requests) = (Family::default(), Family::default());
        let mut registry = Registry::with_prefix("fakecloud");
        registry.register(
            "driver_calls",
            "Answered calls of the driver contract by machine code",
            Family::clone(&calls),
        );
        registry.register(
            "kubelet_api_requests",
            "Requests of simulated kubelets to the API server by status code; 0: no answer",
            Family::clone(&requests),
        );
        registry.register_collector(Box::new(LedgerCollector(cloud.clone())));
        registry.register_collector(Box::new(VmCollector(cloud)));
        Self(Arc::new(Inner {
            registry: Mutex::new(registry),
            calls,
            requests,
        }))
    }

    /// The text for a scrape.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.0.registry.lock();
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            tracing::error!("cannot write the metrics");
        }
        text
    }

    /// Wraps `client`: sets this program's user agent and counts its requests.
    pub(crate) fn counted(&self, client: Client) -> Client {
        let metrics = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (client, metrics) = (client.clone(), metrics.clone());
            async move {
                request.headers_mut().insert(USER_AGENT, AGENT);
                let method = request.method().to_string();
                let answer = client.send(request).await;
                let code = answer.as_ref().map_or(0, |response| response.status().as_u16());
                metrics.0.requests.get_or_create(&RequestLabels { method, code }).inc();
                answer
            }
        });
        Client::new(service, namespace)
    }
}

/// VMs at the time of the scrape.
struct VmCollector(Fakecloud);

impl fmt::Debug for VmCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VmCollector")
    }
}

impl Collector for VmCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.step(|cloud, now| {
            cloud.advance(now);
            STATES.map(|(state, name)| (name, cloud.vms().filter(|vm| vm.state == state).count()))
        });
        let mut family = encoder.encode_descriptor(
            "vms",
            "VMs in the ledger by state; terminated ones are kept for the record",
            None,
            MetricType::Gauge,
        )?;
        for (state, count) in counts {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&[("state", state)])?)?;
        }
        Ok(())
    }
}

/// Other content of the ledger at the time of the scrape: parts, fault rules, failures of zones.
struct LedgerCollector(Fakecloud);

impl fmt::Debug for LedgerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LedgerCollector")
    }
}

impl Collector for LedgerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (parts, faults, zones) = self.0.step(|cloud, now| {
            cloud.advance(now);
            let parts = [
                ("disk", cloud.disks().count()),
                ("nic", cloud.nics().count()),
                ("volume", cloud.volumes().count()),
            ];
            let faults: Vec<(String, u64)> = cloud
                .faults()
                .list()
                .iter()
                .map(|fault| (fault.rule.name.clone(), fault.hits))
                .collect();
            let zones: Vec<(String, &'static str)> = cloud
                .zone_outages()
                .map(|outage| (outage.zone.clone(), outage.failure.name()))
                .collect();
            (parts, faults, zones)
        });
        let mut family = encoder.encode_descriptor(
            "parts",
            "Disks, network interfaces and volumes",
            None,
            MetricType::Gauge,
        )?;
        for (kind, count) in parts {
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&[("kind", kind)])?)?;
        }
        let help = "Calls that an active fault rule has hit";
        let mut family = encoder.encode_descriptor("fault_hits", help, None, MetricType::Gauge)?;
        for (rule, hits) in faults {
            let gauge = ConstGauge::new(i64::try_from(hits).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&[("rule", rule.as_str())])?)?;
        }
        let help = "Failures of zones that are under way";
        let mut family = encoder.encode_descriptor("zone_failing", help, None, MetricType::Gauge)?;
        for (zone, failure) in zones {
            ConstGauge::new(1_i64).encode(family.encode_family(&[("zone", zone.as_str()), ("failure", failure)])?)?;
        }
        Ok(())
    }
}

/// A driver that counts its replies.
#[derive(Clone, Debug)]
pub(crate) struct Counted<D> {
    driver: D,
    metrics: Metrics,
}

impl<D> Counted<D> {
    pub(crate) fn new(driver: D, metrics: Metrics) -> Self {
        Self { driver, metrics }
    }

    fn count<T>(&self, call: &'static str, result: Result<T, DriverError>) -> Result<T, DriverError> {
        let code = result.as_ref().map_or_else(|error| error.code, |_| Code::Ok).name();
        self.metrics.0.calls.get_or_create(&CallLabels { call, code }).inc();
        result
    }
}

#[async_trait]
impl<D: Driver> Driver for Counted<D> {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.count("CreateMachine", self.driver.create_machine(request).await)
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.count("InitializeMachine", self.driver.initialize_machine(request).await)
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        self.count("DeleteMachine", self.driver.delete_machine(request).await)
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.count("GetMachineStatus", self.driver.get_machine_status(request).await)
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        self.count("ListMachines", self.driver.list_machines(class, secret).await)
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        self.count("GetVolumeIDs", self.driver.get_volume_ids(specs).await)
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        let updated = self.driver.update_machine(request, last_applied).await;
        self.count("UpdateMachine", updated)
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.count("StopMachine", self.driver.stop_machine(request).await)
    }

    async fn generate_machine_class(
        &self,
        provider_class: serde_json::Value,
        class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        let generated = self.driver.generate_machine_class(provider_class, class).await;
        self.count("GenerateMachineClass", generated)
    }
}

#[cfg(test)]
mod tests {
    use clock::{Clock, Seed};

    use std::time::Duration;

    use super::*;
    use crate::model::{FaultRule, ZoneFailure, ZoneOutage};
    use crate::{Config, Delay};

    #[tokio::test]
    async fn calls_requests_and_vms_are_counted() {
        let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
        cloud.step(|cloud, now| {
            let rule = FaultRule::new("slow").latency(Delay::Constant(Duration::from_millis(1)));
            cloud.add_fault(rule, now).unwrap();
            cloud
                .fail_zone(ZoneOutage::new("local-*", ZoneFailure::Api, now), None, now)
                .unwrap();
        });
        let metrics = Metrics::new(cloud.clone());
        let driver = Counted::new(cloud.driver(), metrics.clone());
        driver.get_volume_ids(Vec::new()).await.unwrap();
        driver
            .list_machines(MachineClass::default(), BTreeMap::new())
            .await
            .unwrap_err();
        let agent = tower::service_fn(|request: Request<Body>| async move {
            assert_eq!(request.headers()[USER_AGENT], AGENT);
            let answer = http::Response::builder().status(404);
            answer.body(Body::empty())
        });
        let client = metrics.counted(Client::new(agent, "default"));
        client.apiserver_version().await.unwrap_err();
        let text = metrics.text();
        for line in [
            "fakecloud_driver_calls_total{call=\"GetVolumeIDs\",code=\"OK\"} 1",
            "fakecloud_driver_calls_total{call=\"ListMachines\",code=\"",
            "fakecloud_kubelet_api_requests_total{method=\"GET\",code=\"404\"} 1",
            "fakecloud_vms{state=\"running\"} 0",
            "fakecloud_parts{kind=\"nic\"} 0",
            "fakecloud_fault_hits{rule=\"slow\"} 2",
            "fakecloud_zone_failing{zone=\"local-*\",failure=\"api\"} 1",
        ] {
            assert!(text.contains(line), "{line} is missing:\n{text}");
        }
    }
}
