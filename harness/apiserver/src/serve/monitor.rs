//! Asks other servers for their resources, and writes whether they are available.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join_all, select_all};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;

use crate::api_services::{API_SERVICES, Available, Discovered, Registration, name_user};
use crate::identity::Identity;
use crate::inner::Inner;
use crate::network::{Connection, NotConnected, SERVICES, SLICES};
use crate::registry::{Entry, Part, WriteOptions, time_text};
use crate::store::{Object, Scope};

/// The time between two checks of servers that are available.
const PERIOD: Duration = Duration::from_secs(30);
/// The time between two checks if one server is not available.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two checks while services and their endpoints change.
const PAUSE: Duration = Duration::from_millis(100);
/// After this time a server is not available.
const TIMEOUT: Duration = Duration::from_secs(6);
/// The largest list of resources in bytes.
const MAX_LIST: usize = 16 * 1024 * 1024;

/// Checks the other servers until the future is dropped.
pub(crate) async fn run(server: Arc<Inner>) {
    let store = server.registry.store();
    let mut changes: Vec<_> = [API_SERVICES, SERVICES, SLICES]
        .into_iter()
        .filter_map(|table| store.subscribe(table))
        .collect();
    loop {
        for change in &mut changes {
            change.mark_unchanged();
        }
        let next = round(&server).await;
        let clock = server.registry.clock();
        clock.sleep(PAUSE).await;
        // Without other servers, only a new registration matters.
        let watched = if next.is_some() { changes.len() } else { 1 };
        let changed = changes
            .iter_mut()
            .take(watched)
            .map(|change| Box::pin(change.changed()));
        let changed = select_all(changed);
        let (ended, ..) = match next {
            Some(period) => tokio::select! {
                changed = changed => changed,
                () = clock.sleep(period) => continue,
            },
            None => changed.await,
        };
        if ended.is_err() {
            return;
        }
    }
}

/// Checks all other servers at the same time. Returns after which time they must be checked again; `None`: there are none.
async fn round(server: &Inner) -> Option<Duration> {
    let catalog = server.registry.catalog();
    let entry = catalog.any_version("apiregistration.k8s.io", "apiservices")?;
    let listing = server.registry.store().list(API_SERVICES, &Scope::default(), None);
    let stored = listing.map(|listing| listing.objects).unwrap_or_default();
    let stored = stored.iter().filter_map(|object| Some((object, object.value().ok()?)));
    let checks = join_all(stored.map(|(object, value)| async move {
        let registration = Registration::read(&value);
        let condition = match &registration {
            Some(registration) => Some(check(server, registration).await),
            None => None,
        };
        (object, value, condition)
    }));
    let mut period = None;
    for (object, value, found) in checks.await {
        let condition = match found {
            None => Available::local(),
            Some(found) => {
                let wait = if found.is_ok() { PERIOD } else { RETRY };
                period = Some(period.map_or(wait, |period: Duration| period.min(wait)));
                let (condition, discovered) = match found {
                    Ok(discovered) => (Available::passed(), Some(discovered)),
                    Err(condition) => (condition, None),
                };
                server.api_services.found(&object.key.name, discovered);
                condition
            }
        };
        write(server, entry, object, value, &condition);
    }
    period
}

/// Writes a condition, unless the object has it or has changed.
fn write(server: &Inner, entry: &Entry, object: &Object, mut value: Value, condition: &Available) {
    let registry = &server.registry;
    if !condition.put(&mut value, &time_text(registry.clock().now())) {
        return;
    }
    let written = registry.update(entry, &object.key, Part::Status, value, &WriteOptions::default());
    if let Err(error) = written {
        // After a change of the object, the next round writes the condition.
        tracing::debug!(
            name = object.key.name,
            error = error.message,
            "the availability of an API service is not written"
        );
    }
}

/// Asks a server for its resources.
async fn check(server: &Inner, registration: &Registration) -> Result<Discovered, Available> {
    let place = server.registry.network().place(&registration.service);
    let place = place.map_err(|missing| Available::unreachable(registration, &missing))?;
    let url = format!("https://{place}{}", registration.path());
    let discover = async {
        let authority = server.authority.as_ref();
        let mut connection = server.api_services.connect(registration, place, authority).await?;
        let resources = get(&mut connection, registration, &registration.path()).await?;
        // A server without OpenAPI v3 is available as well.
        let index = get(&mut connection, registration, "/openapi/v3")
            .await
            .unwrap_or_default();
        Ok::<_, CheckError>((resources, index))
    };
    match tokio::time::timeout(TIMEOUT, discover).await {
        Ok(Ok((resources, index))) => Ok(Discovered::read(
            &resources,
            &index,
            registration.path().trim_start_matches('/'),
        )),
        Ok(Err(CheckError::Code(code))) => {
            let why = format!("failing or missing response from {url}: bad status from {url}: {code}");
            Err(Available::failed(why))
        }
        Ok(Err(CheckError::NotConnected(why))) => {
            let why = format!("failing or missing response from {url}: Get {url:?}: {why}");
            Err(Available::failed(why))
        }
        Err(_) => Err(Available::failed(format!("timed out waiting for {url}"))),
    }
}

/// Why a server did not answer a check.
#[derive(Debug)]
enum CheckError {
    NotConnected(NotConnected),
    /// It answered with this code.
    Code(u16),
}

impl From<NotConnected> for CheckError {
    fn from(why: NotConnected) -> Self {
        Self::NotConnected(why)
    }
}

/// A document of another server; `null` if it is no JSON.
async fn get(connection: &mut Connection, registration: &Registration, path: &str) -> Result<Value, CheckError> {
    let mut request = Request::new(Full::<Bytes>::default());
    *request.uri_mut() = path.parse().map_err(|error| NotConnected::new(&error))?;
    let headers = request.headers_mut();
    if let Ok(host) = registration.host().parse() {
        headers.insert(header::HOST, host);
    }
    headers.insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
    let user = Identity {
        groups: vec!["system:masters".to_owned()],
        ..Identity::user("system:kube-aggregator")
    };
    name_user(headers, &user);
    let response = connection.send(request).await?;
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), MAX_LIST).collect().await;
    let body = body.map_err(|error| NotConnected::new(&error))?.to_bytes();
    if !(200..400).contains(&code) {
        return Err(CheckError::Code(code));
    }
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}
