//! One run against one driver: the objects, the calls with their time limits, and the machines created so far.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clock::{Clock, NoEntropy, Seed, Stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::machine::ClassSpec;
use mcm_api::{Machine, MachineName, ProviderId, keys};
use mcm_driver::{Code, Driver, DriverError, MachineRequest, Power, VmIdentity};
use parking_lot::Mutex;
use request_files::{Data, exposed_key, redact};

use crate::call::{Call, CallError};
use crate::input::Inputs;
use crate::verdict::{Stop, Verdict};

/// The bounds of the pause between two checks whether a deletion or a list took effect; it grows, to spare the cloud.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The bootstrap token in the user data of the suite's machines; no cluster accepts it.
const BOOTSTRAP_TOKEN: &str = "drydck.0123456789abcdef";

/// Begin of [`random_prefix`].
pub(crate) const RANDOM_PREFIX: &str = "suite-";

/// A prefix for machine names that no other run has.
///
/// # Errors
/// The operating system provides no randomness.
pub fn random_prefix() -> Result<String, NoEntropy> {
    let mut random = Seed::from_entropy()?.stream("driver-suite/prefix");
    Ok(format!("{RANDOM_PREFIX}{}", random.text(6, b"0123456789abcdef")))
}

/// How long the suite waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the answer of one call; at most what the contract allows.
    pub call: Duration,
    /// Until a VM is listed after its creation, or gone after its deletion.
    pub settle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_mins(1),
            settle: Duration::from_secs(30),
        }
    }
}

/// A run of the suite against one driver.
#[derive(Debug)]
pub struct Session {
    driver: Arc<dyn Driver>,
    pub(crate) inputs: Inputs,
    pub(crate) limits: Limits,
    prefix: String,
    /// The number of machines.
    named: AtomicU32,
    /// Draws uids, which must differ between runs even with the same prefix: a driver may derive client tokens from them.
    uids: Mutex<Stream>,
    /// The machines for which CreateMachine was called.
    machines: Mutex<Vec<Machine>>,
    /// The VMs of the class before the run.
    pub(crate) before: Mutex<BTreeMap<ProviderId, MachineName>>,
}

impl Session {
    /// A run whose machines have names that begin with `prefix`, which no other run may use.
    ///
    /// # Errors
    /// The operating system provides no randomness.
    pub fn new(driver: Arc<dyn Driver>, inputs: Inputs, limits: Limits, prefix: String) -> Result<Self, NoEntropy> {
        Ok(Self {
            driver,
            inputs,
            limits,
            prefix,
            named: AtomicU32::new(0),
            uids: Mutex::new(Seed::from_entropy()?.stream("driver-suite/uids")),
            machines: Mutex::default(),
            before: Mutex::default(),
        })
    }

    /// A machine with a new name and uid.
    pub(crate) fn machine(&self) -> Machine {
        let number = self.named.fetch_add(1, Ordering::Relaxed) + 1;
        let class = &self.inputs.class.metadata;
        let mut machine = Machine::default();
        let name = format!("{}-{number}", self.prefix);
        machine.metadata.uid = Some(self.uids.lock().uuid());
        machine.metadata.name = Some(name);
        machine.metadata.namespace = class.namespace.clone();
        machine.spec.class = ClassSpec {
            kind: keys::MACHINE_CLASS.to_owned(),
            name: class.name.clone().unwrap_or_default(),
            ..ClassSpec::default()
        };
        machine
    }

    /// Whether a machine belongs to this run.
    pub(crate) fn owns(&self, machine: &str) -> bool {
        machine
            .strip_prefix(self.prefix.as_str())
            .is_some_and(|rest| rest.starts_with('-'))
    }

    /// A class of another cluster or provider that is unique to this run.
    pub(crate) fn other_name(&self) -> String {
        format!("{}-other", self.prefix)
    }

    /// The machines for which CreateMachine was called, in this order.
    pub(crate) fn machines(&self) -> Vec<Machine> {
        self.machines.lock().clone()
    }

    /// The key of a secret value in `text`.
    pub(crate) fn exposed_key<'a>(&self, text: &str, secret: &'a Data) -> Option<&'a str> {
        exposed_key(text, secret, &self.public())
    }

    /// `text` without secret values.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact(text, &self.inputs.secret, &self.public())
    }

    /// Text that is no secret, although a value of the Secret may repeat it.
    fn public(&self) -> String {
        serde_json::to_string(&self.inputs.class).unwrap_or_default()
    }

    fn request(&self, machine: &Machine, inputs: &Inputs) -> MachineRequest {
        let mut secret = inputs.secret.clone();
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        if let Some(value) = secret.get_mut(keys::USER_DATA_KEY)
            && let Ok(text) = std::str::from_utf8(&value.0)
        {
            let text = text.replace(keys::MACHINE_NAME_PLACEHOLDER, name);
            let text = text.replace(keys::BOOTSTRAP_TOKEN_PLACEHOLDER, BOOTSTRAP_TOKEN);
            *value = ByteString(text.into_bytes());
        }
        MachineRequest {
            machine: machine.clone(),
            class: inputs.class.clone(),
            secret,
        }
    }

    async fn answer<T>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, CallError> {
        let limit = self.limits.call.min(call.contract_limit());
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer.map_err(|error| CallError::Failed { call, error }),
            Err(_) => Err(CallError::NoAnswer { call, limit }),
        }
    }

    /// CreateMachine. A VM that still needs InitializeMachine counts as created.
    pub(crate) async fn create(&self, machine: &Machine) -> Result<VmIdentity, CallError> {
        existing(self.create_with(machine, &self.inputs).await)
    }

    /// CreateMachine with another class or Secret.
    pub(crate) async fn create_with(&self, machine: &Machine, inputs: &Inputs) -> Result<VmIdentity, CallError> {
        self.register(machine);
        let request = self.request(machine, inputs);
        self.answer(Call::CreateMachine, self.driver.create_machine(request))
            .await
    }

    /// CreateMachine of a client that gives up after `patience`. The answer is lost.
    pub(crate) async fn create_and_give_up(&self, machine: &Machine, patience: Duration) {
        self.register(machine);
        let request = self.request(machine, &self.inputs);
        let _ = tokio::time::timeout(patience, self.driver.create_machine(request)).await;
    }

    fn register(&self, machine: &Machine) {
        let mut machines = self.machines.lock();
        if machines
            .iter()
            .all(|known| known.metadata.name != machine.metadata.name)
        {
            machines.push(machine.clone());
        }
    }

    pub(crate) async fn initialize(&self, machine: &Machine) -> Result<VmIdentity, CallError> {
        self.initialize_with(machine, &self.inputs).await
    }

    pub(crate) async fn initialize_with(&self, machine: &Machine, inputs: &Inputs) -> Result<VmIdentity, CallError> {
        let request = self.request(machine, inputs);
        self.answer(Call::InitializeMachine, self.driver.initialize_machine(request))
            .await
    }

    pub(crate) async fn delete(&self, machine: &Machine) -> Result<(), CallError> {
        self.delete_with(machine, &self.inputs).await
    }

    pub(crate) async fn delete_with(&self, machine: &Machine, inputs: &Inputs) -> Result<(), CallError> {
        let request = self.request(machine, inputs);
        let deleted = self.answer(Call::DeleteMachine, self.driver.delete_machine(request));
        deleted.await.map(drop)
    }

    /// GetMachineStatus as the driver answers it.
    pub(crate) async fn status(&self, machine: &Machine) -> Result<VmIdentity, CallError> {
        self.status_with(machine, &self.inputs).await
    }

    pub(crate) async fn status_with(&self, machine: &Machine, inputs: &Inputs) -> Result<VmIdentity, CallError> {
        let request = self.request(machine, inputs);
        self.answer(Call::GetMachineStatus, self.driver.get_machine_status(request))
            .await
    }

    pub(crate) async fn list(&self) -> Result<BTreeMap<ProviderId, MachineName>, CallError> {
        self.list_with(&self.inputs).await
    }

    pub(crate) async fn list_with(&self, inputs: &Inputs) -> Result<BTreeMap<ProviderId, MachineName>, CallError> {
        let (class, secret) = (inputs.class.clone(), inputs.secret.clone());
        self.answer(Call::ListMachines, self.driver.list_machines(class, secret))
            .await
    }

    pub(crate) async fn update(&self, machine: &Machine, last_applied: Option<String>) -> Result<(), CallError> {
        let request = self.request(machine, &self.inputs);
        self.answer(Call::UpdateMachine, self.driver.update_machine(request, last_applied))
            .await
    }

    pub(crate) async fn stop(&self, machine: &Machine) -> Result<VmIdentity, CallError> {
        let request = self.request(machine, &self.inputs);
        self.answer(Call::StopMachine, self.driver.stop_machine(request)).await
    }

    pub(crate) async fn volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, CallError> {
        self.answer(Call::GetVolumeIds, self.driver.get_volume_ids(specs)).await
    }

    /// The listed VMs of a machine; `None`: the driver has no ListMachines.
    pub(crate) async fn listed_vms(&self, machine: &Machine) -> Result<Option<Vec<ProviderId>>, CallError> {
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        match self.list().await {
            Ok(vms) => Ok(Some(
                vms.into_iter()
                    .filter(|(_, of)| *of == name)
                    .map(|(id, _)| id)
                    .collect(),
            )),
            Err(error) if error.is_unimplemented() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Which call still finds a VM of the machine. An error of GetMachineStatus other than those with a VM counts as not
    /// found: another case checks its code.
    pub(crate) async fn finder(&self, machine: &Machine) -> Result<Option<String>, CallError> {
        match existing(self.status(machine).await) {
            Ok(vm) => return Ok(Some(format!("GetMachineStatus finds {}", name_of(&vm)))),
            Err(error) if error.code() == Some(Code::OutOfRange) => {
                return Ok(Some("GetMachineStatus finds several VMs".to_owned()));
            }
            Err(error @ CallError::NoAnswer { .. }) => return Err(error),
            Err(_) => {}
        }
        let listed = self.listed_vms(machine).await?.unwrap_or_default();
        Ok(listed.first().map(|id| format!("ListMachines contains VM {id}")))
    }

    /// Waits until no call finds a VM of the machine.
    pub(crate) async fn wait_until_gone(&self, machine: &Machine) -> Verdict {
        let waiting = Stopwatch::start();
        while let Some(finder) = self.finder(machine).await? {
            if waiting.elapsed() >= self.limits.settle {
                let limit = self.limits.settle;
                return Err(Stop::Failed(format!(
                    "{limit:?} after a successful DeleteMachine {finder}"
                )));
            }
            waiting.pause().await;
        }
        Ok(())
    }

    /// Repeats StopMachine until the VM is reported as stopped.
    pub(crate) async fn wait_until_stopped(&self, machine: &Machine) -> Result<VmIdentity, Stop> {
        let waiting = Stopwatch::start();
        loop {
            let vm = self.stop(machine).await?;
            if vm.power == Some(Power::Stopped) {
                return Ok(vm);
            }
            if waiting.elapsed() >= self.limits.settle {
                let limit = self.limits.settle;
                return Err(Stop::Failed(format!(
                    "after {limit:?} StopMachine does not return a VM with power stopped, which is the controller's proof"
                )));
            }
            waiting.pause().await;
        }
    }

    /// Checks that the machine has exactly the VM `expected`.
    pub(crate) async fn has_only(&self, machine: &Machine, expected: &ProviderId) -> Verdict {
        match existing(self.status(machine).await) {
            Ok(vm) if vm.provider_id.as_ref() == Some(expected) => {}
            Ok(vm) => {
                return stop(format!(
                    "GetMachineStatus finds {}, expected VM {expected}",
                    name_of(&vm)
                ));
            }
            Err(error) if error.is_unimplemented() => {}
            Err(error) => return stop(format!("VM {expected} exists, but {error}")),
        }
        let Some(listed) = self.wait_until_listed(machine).await? else {
            return Ok(());
        };
        match listed.as_slice() {
            [id] if id == expected => Ok(()),
            [] => stop(format!("ListMachines does not contain VM {expected}")),
            ids => stop(format!(
                "ListMachines contains {}, expected only VM {expected}",
                names(ids)
            )),
        }
    }

    /// The listed VMs of a machine, after waiting for the first.
    async fn wait_until_listed(&self, machine: &Machine) -> Result<Option<Vec<ProviderId>>, CallError> {
        let waiting = Stopwatch::start();
        loop {
            let listed = self.listed_vms(machine).await?;
            if listed.as_ref().is_none_or(|ids| !ids.is_empty()) || waiting.elapsed() >= self.limits.settle {
                return Ok(listed);
            }
            waiting.pause().await;
        }
    }
}

/// The VM of an answer; of an Uninitialized error, the VM that it contains.
pub(crate) fn existing(answer: Result<VmIdentity, CallError>) -> Result<VmIdentity, CallError> {
    match answer {
        Err(CallError::Failed { error, .. }) if error.code == Code::Uninitialized && error.vm.is_some() => {
            Ok(error.vm.map(|vm| *vm).unwrap_or_default())
        }
        answer => answer,
    }
}

/// A VM in a text.
pub(crate) fn name_of(vm: &VmIdentity) -> String {
    match &vm.provider_id {
        Some(id) => format!("VM {id}"),
        None => "a VM without a provider id".to_owned(),
    }
}

fn names(ids: &[ProviderId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("VM {id}")).collect();
    ids.join(", ")
}

fn stop(reason: String) -> Verdict {
    Err(Stop::Failed(reason))
}

/// Measures a duration, including that of calls.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    clock: Clock,
    start: jiff::Timestamp,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let clock = Clock::wall();
        let start = clock.now();
        Self { clock, start }
    }

    /// Waits until the next check whether something took effect.
    pub(crate) async fn pause(&self) {
        let pause = (self.elapsed() / 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.clock.sleep(pause).await;
    }

    /// Zero if the clock was set back.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::try_from(self.clock.now().duration_since(self.start)).unwrap_or_default()
    }
}
