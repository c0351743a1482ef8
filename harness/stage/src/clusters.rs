//! The API servers of a world: that of the control cluster, which holds machines, and that of the target cluster, which
//! nodes join. Both may be the same cluster.

use std::sync::Arc;

use http::header::{HeaderName, HeaderValue, InvalidHeaderValue};
use http::{Request, Response};
use kube::client::Body;
use scenario::kinds::{Kind, Side};
use tower::service_fn;

/// The user that a request impersonates (`kubectl --as`).
const IMPERSONATE: HeaderName = HeaderName::from_static("impersonate-user");

/// A user name that is not valid in a request header.
#[derive(Debug, thiserror::Error)]
#[error("{user:?} is not a valid user name: {source}")]
pub struct UserNameError {
    /// The name.
    pub user: String,
    /// The cause.
    pub source: InvalidHeaderValue,
}

/// Clients of the control cluster and the target cluster.
#[derive(Clone)]
pub struct Clusters {
    control: kube::Client,
    /// `None` if the control cluster is also the target cluster.
    target: Option<kube::Client>,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clusters")
            .field("two", &self.are_two())
            .finish_non_exhaustive()
    }
}

impl Clusters {
    /// One cluster with both roles.
    pub fn one(client: kube::Client) -> Self {
        Self {
            control: client,
            target: None,
        }
    }

    /// A control cluster, and a target cluster if that is another one.
    pub fn new(control: kube::Client, target: Option<kube::Client>) -> Self {
        Self { control, target }
    }

    /// The client of the control cluster.
    pub fn control(&self) -> &kube::Client {
        &self.control
    }

    /// The client of the target cluster.
    pub fn target(&self) -> &kube::Client {
        self.target.as_ref().unwrap_or(&self.control)
    }

    /// Whether control cluster and target cluster differ.
    pub fn are_two(&self) -> bool {
        self.target.is_some()
    }

    /// The cluster in which objects of that kind are written. Kinds that both clusters hold are written in the control
    /// cluster.
    pub fn of(&self, kind: &Kind) -> &kube::Client {
        match kind.side {
            Side::Control | Side::Both => &self.control,
            Side::Target => self.target(),
        }
    }

    /// The same clusters, with requests that impersonate a user.
    ///
    /// # Errors
    /// When the name is not a valid header value.
    pub fn as_user(&self, user: &str) -> Result<Self, UserNameError> {
        let name = HeaderValue::from_str(user).map_err(|source| UserNameError {
            user: user.to_owned(),
            source,
        })?;
        Ok(Self {
            control: impersonating(&self.control, &name),
            target: self.target.as_ref().map(|target| impersonating(target, &name)),
        })
    }
}

/// A client whose requests impersonate `user`. The user of `client` needs the permission to impersonate.
fn impersonating(client: &kube::Client, user: &HeaderValue) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let (client, user) = (Arc::new(client.clone()), user.clone());
    let service = service_fn(move |mut request: Request<Body>| {
        let client = Arc::clone(&client);
        request.headers_mut().insert(IMPERSONATE, user.clone());
        async move {
            let response: Result<Response<Body>, kube::Error> = client.send(request).await;
            response
        }
    });
    kube::Client::new(service, namespace)
}
