//! The driver's side: a [`Driver`] registers with a machine controller and performs its operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, SinkExt, StreamExt};
use http_body::Body;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::SecretReference;
use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError};
use mcm_api::keys::USER_DATA_KEY;
use parking_lot::Mutex;
use tonic::client::GrpcService;
use tonic::{Request, Status};

use super::{API_VERSION, SESSION};
use crate::proto::OperationType;
use crate::proto::answer::Result as Outcome;
use crate::proto::controller_side::Message as ToDriver;
use crate::proto::driver_side::Message as FromDriver;
use crate::proto::registry_client::RegistryClient;
use crate::{Driver, MachineRequest, proto, wire};

type StdError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The maximum number of answers that wait to be sent.
const OUTBOX: usize = 256;

/// Why a registration ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Ended {
    /// The controller rejects this driver; a retry succeeds only after a change of the configuration.
    #[error("the machine controller rejects the registration: {0}")]
    Refused(String),
    /// There is no connection, or it broke.
    #[error("no connection to the machine controller: {0}")]
    Broken(String),
}

impl Ended {
    fn of(status: &Status) -> Self {
        let text = wire::with_causes(status);
        match status.code() {
            tonic::Code::AlreadyExists | tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition => {
                Self::Refused(text)
            }
            _ => Self::Broken(text),
        }
    }
}

/// A driver that registers for a kind. Clones share the fetched classes.
#[derive(Debug)]
pub struct Registrant<D> {
    driver: Arc<D>,
    kind: String,
    name: String,
    classes: Arc<Mutex<BTreeMap<(String, String), CachedClass>>>,
}

#[derive(Clone, Debug)]
struct CachedClass {
    resource_version: String,
    class: MachineClass,
}

impl<D> Clone for Registrant<D> {
    fn clone(&self) -> Self {
        Self {
            driver: Arc::clone(&self.driver),
            kind: self.kind.clone(),
            name: self.name.clone(),
            classes: Arc::clone(&self.classes),
        }
    }
}

impl<D: Driver + 'static> Registrant<D> {
    /// Registers `driver` for classes whose provider is `kind`; `name` identifies this process in messages.
    pub fn new(driver: D, kind: &str, name: &str) -> Self {
        Self {
            driver: Arc::new(driver),
            kind: kind.to_owned(),
            name: name.to_owned(),
            classes: Arc::default(),
        }
    }

    /// Registers over `service`, usually a [`crate::channel::channel`], and performs operations until the stream ends.
    /// Calls `registered` once the controller has accepted the registration. Pending operations are dropped when the
    /// stream ends: the controller repeats them.
    pub async fn run<T>(&self, service: T, registered: impl FnOnce()) -> Ended
    where
        T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
        T::Error: Into<StdError>,
        T::Future: Send,
        T::ResponseBody: Body<Data = Bytes> + Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + Send,
    {
        let client = RegistryClient::new(service);
        match self.work(client, registered).await {
            Ok(()) => Ended::Broken("the machine controller ended the stream".to_owned()),
            Err(status) => Ended::of(&status),
        }
    }

    async fn work<T>(&self, mut client: RegistryClient<T>, registered: impl FnOnce()) -> Result<(), Status>
    where
        T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
        T::Error: Into<StdError>,
        T::Future: Send,
        T::ResponseBody: Body<Data = Bytes> + Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + Send,
    {
        let (mut outbox, answers) = mpsc::channel(OUTBOX);
        let registration = FromDriver::Registration(proto::Registration {
            kind: self.kind.clone(),
            api_version: API_VERSION.to_owned(),
            name: self.name.clone(),
        });
        let closed = |_| Status::unavailable("the stream of answers is closed");
        outbox.send(message(registration)).await.map_err(closed)?;
        let mut operations = client.register(answers).await?.into_inner();
        let first = operations.message().await?.and_then(|first| first.message);
        let Some(ToDriver::Registered(welcome)) = first else {
            return Err(Status::internal(
                "the machine controller's first message is not Registered",
            ));
        };
        registered();
        let fetch = Fetch {
            client,
            session: welcome.session,
        };
        let mut pending: FuturesUnordered<BoxFuture<'_, proto::Answer>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(answer) = pending.next() => {
                    outbox.send(message(FromDriver::Answer(answer))).await.map_err(closed)?;
                }
                next = operations.message() => match next? {
                    None => return Ok(()),
                    Some(proto::ControllerSide { message: Some(ToDriver::Operation(operation)) }) => {
                        pending.push(self.answer(operation, fetch.clone()).boxed());
                    }
                    // A cancelled operation is completed nevertheless, so that it leaves no incomplete VM.
                    Some(_) => {}
                },
            }
        }
    }

    async fn answer<T>(&self, operation: proto::Operation, fetch: Fetch<T>) -> proto::Answer
    where
        T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
        T::Error: Into<StdError>,
        T::Future: Send,
        T::ResponseBody: Body<Data = Bytes> + Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + Send,
    {
        let id = operation.id;
        let result = match self.perform(operation, fetch).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failure(wire::encode_failure(error)),
        };
        proto::Answer {
            id,
            result: Some(result),
        }
    }

    async fn perform<T>(&self, operation: proto::Operation, fetch: Fetch<T>) -> Result<Outcome, DriverError>
    where
        T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
        T::Error: Into<StdError>,
        T::Future: Send,
        T::ResponseBody: Body<Data = Bytes> + Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + Send,
    {
        let type_ = operation.r#type();
        if type_ == OperationType::GetVolumeIds {
            let specs = operation.persistent_volume_specs.iter();
            let specs = specs
                .map(|spec| wire::from_json("persistent_volume_specs", spec))
                .collect::<Result<_, _>>()?;
            let ids = self.driver.get_volume_ids(specs).await?;
            return Ok(Outcome::Volumes(proto::VolumeIds { ids }));
        }
        let class = self.class(operation.class.unwrap_or_default(), &fetch).await?;
        let mut secret = fetch.secrets_of(&class).await?;
        if let Some(user_data) = operation.user_data {
            secret.insert(USER_DATA_KEY.to_owned(), ByteString(user_data));
        }
        if type_ == OperationType::List {
            let machines = self.driver.list_machines(class, secret).await?;
            return Ok(Outcome::List(proto::VmList {
                machines: wire::encode_vms(machines),
            }));
        }
        let request = MachineRequest {
            machine: wire::from_json("machine", &operation.machine)?,
            class,
            secret,
        };
        let driver = &self.driver;
        match type_ {
            OperationType::Create => driver.create_machine(request).await.map(vm),
            OperationType::Initialize => driver.initialize_machine(request).await.map(vm),
            OperationType::GetStatus => driver.get_machine_status(request).await.map(vm),
            OperationType::Stop => driver.stop_machine(request).await.map(vm),
            OperationType::Delete => driver
                .delete_machine(request)
                .await
                .map(|last_known_state| Outcome::Deleted(proto::Deleted { last_known_state })),
            other => Err(DriverError::new(
                Code::Unimplemented,
                format!("this driver does not implement the operation {}", other.as_str_name()),
            )),
        }
    }

    /// The class in the requested version, or a newer one.
    async fn class<T>(&self, meta: proto::MachineClassMeta, fetch: &Fetch<T>) -> Result<MachineClass, DriverError>
    where
        T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
        T::Error: Into<StdError>,
        T::Future: Send,
        T::ResponseBody: Body<Data = Bytes> + Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + Send,
    {
        let key = (meta.namespace.clone(), meta.name.clone());
        let classes = || self.classes.lock();
        let cached = classes().get(&key).cloned();
        if let Some(cached) = cached.filter(|cached| cached.resource_version == meta.resource_version) {
            return Ok(cached.class);
        }
        let fetched = fetch.class(meta).await?;
        let cached = CachedClass {
            resource_version: fetched.metadata.resource_version.clone().unwrap_or_default(),
            class: fetched.clone(),
        };
        classes().insert(key, cached);
        Ok(fetched)
    }
}

fn message(message: FromDriver) -> proto::DriverSide {
    proto::DriverSide { message: Some(message) }
}

fn vm(vm: mcm_api::cloud::VmIdentity) -> Outcome {
    Outcome::Vm(wire::encode_vm(vm))
}

/// Fetches classes and Secrets from the controller.
#[derive(Clone)]
struct Fetch<T> {
    client: RegistryClient<T>,
    session: String,
}

impl<T> Fetch<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + Sync + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    fn request<M>(&self, message: M) -> Result<Request<M>, DriverError> {
        let mut request = Request::new(message);
        let session = self.session.parse().map_err(|_| {
            DriverError::new(
                Code::Internal,
                "the machine controller's session is not valid as gRPC metadata",
            )
        })?;
        request.metadata_mut().insert(SESSION, session);
        Ok(request)
    }

    async fn class(&self, meta: proto::MachineClassMeta) -> Result<MachineClass, DriverError> {
        let request = self.request(meta)?;
        let response = self.client.clone().get_machine_class(request).await;
        let response = response.map_err(|status| wire::decode_error(&status, CONTROLLER))?;
        wire::from_json("class", &response.into_inner().class)
    }

    /// The data of the class's Secrets, merged as in requests of the plain form.
    async fn secrets_of(&self, class: &MachineClass) -> Result<BTreeMap<String, ByteString>, DriverError> {
        let mut data = BTreeMap::new();
        for reference in [&class.secret_ref, &class.credentials_secret_ref].into_iter().flatten() {
            let Some(meta) = secret_meta(class, reference) else {
                continue;
            };
            let request = self.request(meta)?;
            let response = self.client.clone().get_secret(request).await;
            let response = response.map_err(|status| wire::decode_error(&status, CONTROLLER))?;
            data.extend(wire::decode_secret(response.into_inner().data));
        }
        Ok(data)
    }
}

/// The peer in errors of fetches, which [`wire::decode_error`] puts after "driver".
const CONTROLLER: &str = "failed to fetch from the machine controller";

/// A reference without a namespace means the class's namespace.
fn secret_meta(class: &MachineClass, reference: &SecretReference) -> Option<proto::SecretMeta> {
    let name = reference.name.clone().filter(|name| !name.is_empty())?;
    let given = reference.namespace.clone().filter(|namespace| !namespace.is_empty());
    let namespace = given.or_else(|| class.metadata.namespace.clone()).unwrap_or_default();
    Some(proto::SecretMeta { namespace, name })
}
