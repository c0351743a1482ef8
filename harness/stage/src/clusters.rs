//! The API servers of a world: that of the control cluster, which holds machines, and that of the target, which nodes
//! join. Often they are one.

use std::sync::Arc;

use http::header::{HeaderName, HeaderValue, InvalidHeaderValue};
use http::{Request, Response};
use kube::client::Body;
use scenario::kinds::{Kind, Side};
use tower::service_fn;

/// By whose name a request is made (`kubectl --as`).
const IMPERSONATE: HeaderName = HeaderName::from_static("impersonate-user");

/// A name that no user can have.
#[derive(Debug, thiserror::Error)]
#[error("{user:?} is no user's name: {source}")]
pub struct UserNameError {
    /// The name.
    pub user: String,
    /// What is wrong with it.
    pub source: InvalidHeaderValue,
}

/// Clients of both.
#[derive(Clone)]
pub struct Clusters {
    control: kube::Client,
    /// Absent: the control cluster is the target, too.
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
    /// One cluster that is both.
    pub fn one(client: kube::Client) -> Self {
        Self {
            control: client,
            target: None,
        }
    }

    /// A control cluster, and its target where that is another.
    pub fn new(control: kube::Client, target: Option<kube::Client>) -> Self {
        Self { control, target }
    }

    /// That of machines.
    pub fn control(&self) -> &kube::Client {
        &self.control
    }

    /// That of nodes.
    pub fn target(&self) -> &kube::Client {
        self.target.as_ref().unwrap_or(&self.control)
    }

    /// Whether they are two.
    pub fn are_two(&self) -> bool {
        self.target.is_some()
    }

    /// Where objects of that kind are made and changed; those that may be in both are in the control cluster.
    pub fn of(&self, kind: &Kind) -> &kube::Client {
        match kind.side {
            Side::Control | Side::Both => &self.control,
            Side::Target => self.target(),
        }
    }

    /// The same clusters, as that user.
    ///
    /// # Errors
    /// When no user can have that name.
    pub fn as_user(&self, user: &str) -> Result<Self, UserNameError> {
        let name = HeaderValue::from_str(user).map_err(|source| UserNameError {
            user: user.to_owned(),
            source,
        })?;
        Ok(Self {
            control: speaking_for(&self.control, &name),
            target: self.target.as_ref().map(|target| speaking_for(target, &name)),
        })
    }
}

/// A client whose requests are that user's. The one that it is made from must be allowed to speak for others.
fn speaking_for(client: &kube::Client, user: &HeaderValue) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let (client, user) = (Arc::new(client.clone()), user.clone());
    let service = service_fn(move |mut request: Request<Body>| {
        let client = Arc::clone(&client);
        request.headers_mut().insert(IMPERSONATE, user.clone());
        async move {
            let answer: Result<Response<Body>, kube::Error> = client.send(request).await;
            answer
        }
    });
    kube::Client::new(service, namespace)
}
