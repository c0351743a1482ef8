//! The controller's side: the registered drivers, their pending operations and their answers.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::{Stream, StreamExt, stream};
use mcm_api::cloud::{Code, DriverError};
use parking_lot::{Mutex, MutexGuard};
use tonic::{Request, Response, Status, Streaming};

use super::{API_VERSION, SESSION, Source, access};
use crate::proto;
use crate::proto::answer::Result as Outcome;
use crate::proto::controller_side::Message as ToDriver;
use crate::proto::driver_side::Message as FromDriver;
use crate::proto::registry_server::{self, RegistryServer};

/// How long a driver may take from its connection to its registration.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of operations that a driver has not read from its stream; a driver with more is stalled.
const BACKLOG: usize = 4096;

/// The drivers that have registered. Clones share them.
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
    drivers: BTreeMap<String, Registered>,
}

struct Registered {
    name: String,
    session: String,
    outbox: mpsc::Sender<proto::ControllerSide>,
    awaited: BTreeMap<u64, oneshot::Sender<Option<Outcome>>>,
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
    pub fn kinds(&self) -> Vec<String> {
        self.state().drivers.keys().cloned().collect()
    }

    pub(super) fn attach_source(&self, source: Arc<dyn Source>) {
        *lock(&self.0.source) = Some(source);
    }

    /// Sends an operation to the driver of a kind and awaits the answer. Dropping the future cancels the operation.
    pub(super) async fn call(&self, kind: &str, operation: proto::Operation) -> Result<Outcome, DriverError> {
        let (answer, pending) = self.begin(kind, operation)?;
        let answer = answer.await;
        let name = pending.driver.clone();
        drop(pending);
        match answer {
            Ok(Some(Outcome::Failure(failure))) => Err(crate::wire::decode_failure(failure)),
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => Err(DriverError::new(
                Code::Internal,
                format!("the driver {name} of {kind:?} answered without a result, which violates the contract"),
            )),
            Err(_) => Err(unavailable(format!(
                "the driver {name} of {kind:?} disconnected before it answered; the next attempt looks up the result"
            ))),
        }
    }

    fn begin(
        &self,
        kind: &str,
        mut operation: proto::Operation,
    ) -> Result<(oneshot::Receiver<Option<Outcome>>, PendingOperation), DriverError> {
        let mut state = self.state();
        state.operations += 1;
        let id = state.operations;
        let others = state.drivers.keys().cloned().collect::<Vec<_>>().join(", ");
        let Some(driver) = state.drivers.get_mut(kind) else {
            let others = if others.is_empty() { "none".to_owned() } else { others };
            return Err(unavailable(format!(
                "no driver has registered for the provider {kind:?} (registered: {others}): \
                 start it, or correct the provider of the machine class"
            )));
        };
        operation.id = id;
        let message = proto::ControllerSide {
            message: Some(ToDriver::Operation(operation)),
        };
        if driver.outbox.try_send(message).is_err() {
            return Err(unavailable(format!(
                "the driver {} of {kind:?} accepts no operations: it is stalled or disconnecting",
                driver.name
            )));
        }
        let (sender, receiver) = oneshot::channel();
        driver.awaited.insert(id, sender);
        let pending = PendingOperation {
            registry: self.clone(),
            kind: kind.to_owned(),
            driver: driver.name.clone(),
            session: driver.session.clone(),
            id,
        };
        Ok((receiver, pending))
    }

    fn register_driver(
        &self,
        registration: &proto::Registration,
    ) -> Result<(mpsc::Receiver<proto::ControllerSide>, RegistrationGuard), Status> {
        let proto::Registration {
            kind,
            api_version,
            name,
        } = registration;
        if kind.is_empty() {
            return Err(Status::invalid_argument(
                "the registration has no kind: set it to the provider of the machine classes that the driver serves",
            ));
        }
        if api_version != API_VERSION {
            return Err(Status::failed_precondition(format!(
                "the driver uses {api_version:?}, and this controller {API_VERSION}: use a driver for that version"
            )));
        }
        let session = (lock(&self.0.sessions))();
        let mut state = self.state();
        if let Some(registered) = state.drivers.get(kind) {
            return Err(Status::already_exists(format!(
                "the kind {kind:?} already has the driver {}: end that one first, or register for another kind",
                registered.name
            )));
        }
        let (mut outbox, operations) = mpsc::channel(BACKLOG);
        let welcome = proto::ControllerSide {
            message: Some(ToDriver::Registered(proto::Registered {
                session: session.clone(),
            })),
        };
        if outbox.try_send(welcome).is_err() {
            return Err(Status::internal("a new stream accepts no message"));
        }
        let driver = Registered {
            name: name.clone(),
            session: session.clone(),
            outbox,
            awaited: BTreeMap::new(),
        };
        state.drivers.insert(kind.clone(), driver);
        tracing::info!(kind, driver = name, "a driver has registered");
        let guard = RegistrationGuard {
            registry: self.clone(),
            kind: kind.clone(),
            session,
        };
        Ok((operations, guard))
    }

    fn deliver_answer(&self, kind: &str, session: &str, answer: proto::Answer) {
        let mut state = self.state();
        let driver = state.drivers.get_mut(kind).filter(|driver| driver.session == session);
        if let Some(awaited) = driver.and_then(|driver| driver.awaited.remove(&answer.id)) {
            // The caller may have dropped its future.
            let _ = awaited.send(answer.result);
        }
    }

    /// The kind of the calling driver.
    fn kind_of<T>(&self, request: &Request<T>) -> Result<String, Status> {
        let session = request.metadata().get(SESSION).and_then(|value| value.to_str().ok());
        let state = self.state();
        let mut drivers = state.drivers.iter();
        drivers
            .find(|(_, driver)| session == Some(&driver.session))
            .map(|(kind, _)| kind.clone())
            .ok_or_else(|| {
                Status::unauthenticated(format!(
                    "the metadata {SESSION} matches no registered driver: register first, \
                     and send the session of Registered"
                ))
            })
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn unavailable(message: String) -> DriverError {
    DriverError::new(Code::Unavailable, message)
}

/// An operation whose answer is awaited; cancels it if dropped before the answer.
struct PendingOperation {
    registry: Registry,
    kind: String,
    driver: String,
    session: String,
    id: u64,
}

impl Drop for PendingOperation {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        let driver = state.drivers.get_mut(&self.kind);
        if let Some(driver) = driver.filter(|driver| driver.session == self.session)
            && driver.awaited.remove(&self.id).is_some()
        {
            let cancelled = proto::ControllerSide {
                message: Some(ToDriver::Cancelled(self.id)),
            };
            // A stalled or disconnected driver cannot receive the cancellation.
            let _ = driver.outbox.try_send(cancelled);
        }
    }
}

/// Keeps a driver registered until it is dropped together with the driver's stream.
struct RegistrationGuard {
    registry: Registry,
    kind: String,
    session: String,
}

impl Drop for RegistrationGuard {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        let ours = state
            .drivers
            .get(&self.kind)
            .is_some_and(|driver| driver.session == self.session);
        if ours && let Some(driver) = state.drivers.remove(&self.kind) {
            tracing::warn!(
                kind = self.kind,
                driver = driver.name,
                under_way = driver.awaited.len(),
                "the driver disconnected"
            );
        }
    }
}

type Outgoing = Pin<Box<dyn Stream<Item = Result<proto::ControllerSide, Status>> + Send>>;

#[tonic::async_trait]
impl registry_server::Registry for Registry {
    type RegisterStream = Outgoing;

    async fn register(&self, request: Request<Streaming<proto::DriverSide>>) -> Result<Response<Outgoing>, Status> {
        let mut incoming = request.into_inner();
        let first = tokio::time::timeout(REGISTRATION_TIMEOUT, incoming.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the driver did not register in time"))??;
        let Some(FromDriver::Registration(registration)) = first.and_then(|first| first.message) else {
            return Err(Status::invalid_argument("the first message must be a Registration"));
        };
        let (operations, guard) = self.register_driver(&registration)?;
        // One stream drives both directions and ends with either, so that it lives exactly as long as the connection.
        let operations = operations
            .map(|message| Some(Ok(message)))
            .chain(stream::once(async { None }));
        let registry = self.clone();
        let (kind, session) = (guard.kind.clone(), guard.session.clone());
        let answers = incoming
            .map(Some)
            .chain(stream::once(async { None }))
            .filter_map(move |message| {
                let end = match message {
                    Some(Ok(proto::DriverSide {
                        message: Some(FromDriver::Answer(answer)),
                    })) => {
                        registry.deliver_answer(&kind, &session, answer);
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
        let kind = self.kind_of(&request)?;
        access::class(&*self.source()?, &kind, request.get_ref()).map(Response::new)
    }

    async fn get_secret(&self, request: Request<proto::SecretMeta>) -> Result<Response<proto::Secret>, Status> {
        let kind = self.kind_of(&request)?;
        access::secret(&*self.source()?, &kind, request.get_ref()).map(Response::new)
    }
}
