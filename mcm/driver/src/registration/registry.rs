//! The controller's side: the registered drivers, their pending operations and their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::{mpsc, oneshot};
use futures::{Stream, StreamExt, stream};
use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError};
use parking_lot::{Mutex, MutexGuard};
use tonic::{Request, Response, Status, Streaming};

use super::drivers::{self, Destination, Process, Rejection};
use super::operation;
use super::{SESSION, Source, access};
use crate::call::{Call, Handler, Outcome};
use crate::incoming::ClientIdentity;
use crate::proto;
use crate::proto::answer::Result as Answered;
use crate::proto::controller_side::Message as ToDriver;
use crate::proto::driver_side::Message as FromDriver;
use crate::proto::registry_server::{self, RegistryServer};

/// How long a driver may take from its connection to its registration.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of operations that a driver has not read from its stream; a driver with more is stalled.
const BACKLOG: usize = 4096;

/// The drivers that have registered, as one driver: each call goes to a driver of its class's provider. Clones share
/// them.
///
/// A registry without a source belongs to a standby: it accepts drivers, so that they are there when it leads.
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    source: Mutex<Option<Arc<dyn Source>>>,
    sessions: Mutex<Box<dyn FnMut() -> String + Send>>,
}

#[derive(Default)]
struct State {
    operations: u64,
    /// In the order of registration.
    drivers: Vec<Registered>,
}

struct Registered {
    process: Process,
    session: String,
    outbox: mpsc::Sender<proto::ControllerSide>,
    awaited: BTreeMap<u64, Awaited>,
}

struct Awaited {
    answer: oneshot::Sender<Option<Answered>>,
    /// The class in the version of the operation, which the driver may fetch.
    class: Option<MachineClass>,
}

impl State {
    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.drivers.iter().map(|driver| &driver.process)
    }

    fn of_session(&mut self, session: &str) -> Option<&mut Registered> {
        self.drivers.iter_mut().find(|driver| driver.session == session)
    }

    fn kinds(&self) -> BTreeSet<&str> {
        self.processes().map(|process| process.kind.as_str()).collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("kinds", &self.kinds())
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry without drivers. `sessions` generates unpredictable strings, which authenticate drivers.
    pub fn new(sessions: impl FnMut() -> String + Send + 'static) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            source: Mutex::default(),
            sessions: Mutex::new(Box::new(sessions)),
        }))
    }

    /// The generated server struct, to be served by a listener or called in process.
    pub fn into_server(self) -> RegistryServer<Self> {
        RegistryServer::new(self)
    }

    /// The kinds with a registered driver.
    pub fn kinds(&self) -> BTreeSet<String> {
        self.state().kinds().into_iter().map(str::to_owned).collect()
    }

    /// Sends an operation to one process and awaits its answer. Dropping the future cancels the operation.
    async fn send(&self, destination: &Destination, call: &Call) -> Result<Outcome, DriverError> {
        let operation = operation::encode(call)?;
        let (answer, pending) = self.begin(destination, operation, call.class().cloned())?;
        let answer = answer.await;
        let Process { kind, name, .. } = pending.process.clone();
        drop(pending);
        match answer {
            Ok(Some(answered)) => {
                let outcome = operation::decode_result(answered)?;
                if let (Outcome::Class(class), Call::GenerateClass(old, _)) = (&outcome, call) {
                    drivers::check_generated(&kind, old, class)?;
                }
                Ok(outcome)
            }
            Ok(None) => Err(DriverError::new(
                Code::Internal,
                format!("the driver {name} of {kind:?} answered without a result, which violates the contract"),
            )),
            Err(_) => Err(unavailable(format!(
                "the driver {name} of {kind:?} disconnected before it answered; the next attempt looks up the result"
            ))),
        }
    }

    /// Sends an operation to the first connected process that the destination includes. One that reads no operations is
    /// not passed over: it would perform the operations that it has not read later, while another process works for the
    /// same machines.
    fn begin(
        &self,
        destination: &Destination,
        mut operation: proto::Operation,
        class: Option<MachineClass>,
    ) -> Result<(oneshot::Receiver<Option<Answered>>, PendingOperation), DriverError> {
        let mut state = self.state();
        state.operations += 1;
        let id = state.operations;
        operation.id = id;
        let included = state.drivers.iter_mut();
        let included = included.filter(|driver| destination.includes(&driver.process));
        let Some(driver) = included.min_by_key(|driver| driver.outbox.is_closed()) else {
            return Err(destination.absent(&state.kinds()));
        };
        if driver
            .outbox
            .try_send(to_driver(ToDriver::Operation(operation)))
            .is_err()
        {
            return Err(unavailable(format!(
                "the driver {} of {destination} reads no operations: it is stalled or disconnecting; end it if this lasts",
                driver.process.name
            )));
        }
        let (answer, receiver) = oneshot::channel();
        driver.awaited.insert(id, Awaited { answer, class });
        let pending = PendingOperation {
            registry: self.clone(),
            process: driver.process.clone(),
            session: driver.session.clone(),
            id,
        };
        Ok((receiver, pending))
    }

    fn register_driver(
        &self,
        registration: proto::Registration,
        identity: Option<ClientIdentity>,
    ) -> Result<(mpsc::Receiver<proto::ControllerSide>, RegistrationGuard), Status> {
        let session = (lock(&self.0.sessions))();
        let leads = lock(&self.0.source).is_some();
        let mut state = self.state();
        let process = drivers::admit(state.processes(), registration, identity).map_err(rejected)?;
        let (mut outbox, operations) = mpsc::channel(BACKLOG);
        let welcome = proto::Registered {
            session: session.clone(),
            leads,
        };
        if outbox.try_send(to_driver(ToDriver::Registered(welcome))).is_err() {
            return Err(Status::internal("a new stream accepts no message"));
        }
        let before = state.processes().find(|other| other.kind == process.kind);
        let before = before.map(|other| other.name.as_str());
        tracing::info!(
            kind = process.kind,
            driver = process.name,
            leads,
            before,
            "a driver has registered"
        );
        state.drivers.push(Registered {
            process,
            session: session.clone(),
            outbox,
            awaited: BTreeMap::new(),
        });
        let registry = self.clone();
        Ok((operations, RegistrationGuard { registry, session }))
    }

    fn deliver_answer(&self, session: &str, answer: proto::Answer) {
        let mut state = self.state();
        let driver = state.of_session(session);
        if let Some(awaited) = driver.and_then(|driver| driver.awaited.remove(&answer.id)) {
            // The caller may have dropped its future.
            let _ = awaited.answer.send(answer.result);
        }
    }

    /// The kind of the calling driver, and the class of that reference and version if one of its pending operations
    /// has it.
    fn caller<T>(
        &self,
        request: &Request<T>,
        class: Option<&proto::MachineClassMeta>,
    ) -> Result<(String, Option<MachineClass>), Status> {
        let session = request.metadata().get(SESSION).and_then(|value| value.to_str().ok());
        let mut state = self.state();
        let driver = session.and_then(|session| state.of_session(session)).ok_or_else(|| {
            Status::unauthenticated(format!(
                "the metadata {SESSION} matches no registered driver: register first, \
                 and send the session of Registered"
            ))
        })?;
        let pending = driver.awaited.values().filter_map(|awaited| awaited.class.as_ref());
        let pending = class.and_then(|meta| pending.into_iter().find(|class| operation::meta(class) == *meta));
        Ok((driver.process.kind.clone(), pending.cloned()))
    }

    fn source(&self) -> Result<Arc<dyn Source>, Status> {
        lock(&self.0.source)
            .clone()
            .ok_or_else(|| Status::unavailable("this controller does not lead yet, and has not read the classes"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

#[async_trait]
impl Handler for Registry {
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError> {
        if let Some(destination) = Destination::of(&call)? {
            return self.send(&destination, &call).await;
        }
        let mut ids = Vec::new();
        for kind in self.kinds() {
            match self.send(&Destination::Kind(kind), &call).await {
                Ok(Outcome::VolumeIds(found)) => ids.extend(found),
                Ok(other) => return Ok(other),
                Err(error) if error.code == Code::Unimplemented => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::VolumeIds(ids))
    }

    fn attach_source(&self, source: Arc<dyn Source>) {
        *lock(&self.0.source) = Some(source);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn to_driver(message: ToDriver) -> proto::ControllerSide {
    proto::ControllerSide { message: Some(message) }
}

fn unavailable(message: String) -> DriverError {
    DriverError::new(Code::Unavailable, message)
}

fn rejected(rejection: Rejection) -> Status {
    let code = match rejection {
        Rejection::NoKind => tonic::Code::InvalidArgument,
        Rejection::Version(_) => tonic::Code::FailedPrecondition,
        Rejection::OtherIdentity { .. } | Rejection::ClassKindTaken { .. } => tonic::Code::AlreadyExists,
    };
    Status::new(code, rejection.to_string())
}

/// An operation whose answer is awaited; cancels it if dropped before the answer.
struct PendingOperation {
    registry: Registry,
    process: Process,
    session: String,
    id: u64,
}

impl Drop for PendingOperation {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        if let Some(driver) = state.of_session(&self.session)
            && driver.awaited.remove(&self.id).is_some()
        {
            // A stalled or disconnected driver cannot receive the cancellation.
            let _ = driver.outbox.try_send(to_driver(ToDriver::Cancelled(self.id)));
        }
    }
}

/// Keeps a driver registered until it is dropped together with the driver's stream.
struct RegistrationGuard {
    registry: Registry,
    session: String,
}

impl Drop for RegistrationGuard {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        let mut drivers = state.drivers.iter();
        let Some(position) = drivers.position(|driver| driver.session == self.session) else {
            return;
        };
        let ended = state.drivers.remove(position);
        let kind = ended.process.kind;
        let next = state.processes().find(|process| process.kind == kind);
        tracing::warn!(
            kind,
            driver = ended.process.name,
            under_way = ended.awaited.len(),
            next = next.map(|process| process.name.as_str()),
            "the driver disconnected"
        );
    }
}

type Outgoing = Pin<Box<dyn Stream<Item = Result<proto::ControllerSide, Status>> + Send>>;

#[tonic::async_trait]
impl registry_server::Registry for Registry {
    type RegisterStream = Outgoing;

    async fn register(&self, request: Request<Streaming<proto::DriverSide>>) -> Result<Response<Outgoing>, Status> {
        let identity = request.extensions().get::<Option<ClientIdentity>>().cloned().flatten();
        let mut incoming = request.into_inner();
        let first = tokio::time::timeout(REGISTRATION_TIMEOUT, incoming.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the driver did not register in time"))??;
        let Some(FromDriver::Registration(registration)) = first.and_then(|first| first.message) else {
            return Err(Status::invalid_argument("the first message must be a Registration"));
        };
        let (operations, guard) = self.register_driver(registration, identity)?;
        // One stream drives both directions and ends with either, so that it lives exactly as long as the connection.
        let operations = operations
            .map(|message| Some(Ok(message)))
            .chain(stream::once(async { None }));
        let registry = self.clone();
        let session = guard.session.clone();
        let answers = incoming
            .map(Some)
            .chain(stream::once(async { None }))
            .filter_map(move |message| {
                let end = match message {
                    Some(Ok(proto::DriverSide {
                        message: Some(FromDriver::Answer(answer)),
                    })) => {
                        registry.deliver_answer(&session, answer);
                        None
                    }
                    Some(Ok(_)) => Some(Some(Err(Status::invalid_argument(
                        "a driver registers once; every later message must be an Answer",
                    )))),
                    Some(Err(_)) | None => Some(None),
                };
                std::future::ready(end)
            });
        let both = stream::select(operations, answers).scan(guard, |_guard, message| std::future::ready(message));
        Ok(Response::new(Box::pin(both)))
    }

    async fn get_machine_class(
        &self,
        request: Request<proto::MachineClassMeta>,
    ) -> Result<Response<proto::MachineClass>, Status> {
        let (kind, pending) = self.caller(&request, Some(request.get_ref()))?;
        match pending {
            Some(class) => access::encode_class(&class),
            None => access::class(&*self.source()?, &kind, request.get_ref()),
        }
        .map(Response::new)
    }

    async fn get_secret(&self, request: Request<proto::SecretMeta>) -> Result<Response<proto::Secret>, Status> {
        let (kind, _) = self.caller(&request, None)?;
        access::secret(&*self.source()?, &kind, request.get_ref()).map(Response::new)
    }
}
