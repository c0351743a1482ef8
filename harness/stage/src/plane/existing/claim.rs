//! A Lease that a session holds while it uses a cluster. Nodes have no namespace, so two concurrent sessions would
//! confuse each other's nodes.

use std::time::Duration;

use clock::{Clock, Seed};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::SessionError;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "drydock-session";
/// Namespace and name, for messages.
const LEASE: &str = "kube-system/drydock-session";
/// A claim without renewal for this long belongs to a killed session.
const STALE: SignedDuration = SignedDuration::from_secs(60);
const RENEWAL: Duration = Duration::from_secs(15);

/// The claim of this session.
#[derive(Debug)]
pub(super) struct Claim {
    holder: String,
}

impl Claim {
    /// Claims the cluster.
    ///
    /// # Errors
    /// When another session holds the Lease, or the Lease cannot be written.
    pub(super) async fn take(client: &kube::Client, clock: &Clock, seed: &Seed) -> Result<Self, SessionError> {
        let cannot = |error| SessionError::Claim {
            lease: LEASE,
            source: Box::new(error),
        };
        let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
        let holder = seed.stream("claim").uuid();
        let mut lease = Lease {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.clone()),
                renew_time: Some(MicroTime(clock.now())),
                ..LeaseSpec::default()
            }),
        };
        let found = api.get_opt(NAME).await.map_err(cannot)?;
        let written = match found {
            None => api.create(&PostParams::default(), &lease).await,
            Some(found) => {
                let renewed = found.spec.and_then(|spec| spec.renew_time);
                if renewed.is_some_and(|time| clock.now().duration_since(time.0) < STALE) {
                    return Err(TAKEN);
                }
                lease.metadata.resource_version = found.metadata.resource_version;
                api.replace(NAME, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(_) => Ok(Self { holder }),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Err(TAKEN),
            Err(error) => Err(cannot(error)),
        }
    }

    /// Keeps renewing the claim. Returns when another session holds the Lease.
    pub(super) async fn kept(&self, client: &kube::Client, clock: &Clock) -> SessionError {
        let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
        loop {
            let renewed = Patch::Merge(json!({ "spec": { "renewTime": MicroTime(clock.now()) } }));
            let written = api.patch(NAME, &PatchParams::default(), &renewed).await;
            // The run itself detects an outage of the API server.
            if let Ok(lease) = written
                && lease.spec.and_then(|spec| spec.holder_identity).as_deref() != Some(&self.holder)
            {
                return TAKEN;
            }
            clock.sleep(RENEWAL).await;
        }
    }

    /// Releases the claim.
    pub(super) async fn give_back(&self, client: &kube::Client) -> Result<(), SessionError> {
        let api: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
        match api.delete(NAME, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(source) => Err(SessionError::GiveBack {
                lease: LEASE,
                source: Box::new(source),
            }),
        }
    }
}

const TAKEN: SessionError = SessionError::Claimed { lease: LEASE };
