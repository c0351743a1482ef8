//! Keeps a driver registered with every replica of a machine controller.
//!
//! The driver does not need to know which replica leads: a standby accepts the registration, and sends operations over
//! the same stream when it takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{StreamExt, stream};

use super::registrant::{Ended, Registrant, Replica};
use crate::Driver;
use crate::channel::{self, AddressError, patient};
use crate::tls::Tls;

/// The pause before the next registration with a replica.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause after a rejection or for an unusable address, which only a user can resolve.
const REJECTED: Duration = Duration::from_secs(10);
/// The interval in which names are resolved again, so that a new replica gets a registration.
const RESOLVE: Duration = Duration::from_secs(5);

/// The replicas by their addresses, with the TLS configuration of each.
type Replicas = BTreeMap<String, Option<Tls>>;

impl<D: Driver + 'static> Registrant<D> {
    /// Registers with the replicas at `addresses` and keeps the registrations. A name stands for all replicas that it
    /// resolves to, for example those behind a headless Service.
    ///
    /// # Errors
    /// An invalid address. Otherwise this runs until it is dropped.
    pub async fn stay_registered(&self, addresses: &[String], tls: Option<&Tls>) -> Result<Infallible, AddressError> {
        for address in addresses {
            channel::check_address(address, tls)?;
        }
        let resolutions = stream::unfold(None::<ByAddress>, |last| async move {
            if last.is_some() {
                tokio::time::sleep(RESOLVE).await;
            }
            let found = resolve(addresses, tls, last.unwrap_or_default()).await;
            let replicas = found.values().flatten();
            let replicas: Replicas = replicas.map(|(address, tls)| (address.clone(), tls.clone())).collect();
            Some((replicas, Some(found)))
        });
        let mut resolutions = Box::pin(resolutions);
        let mut known = Replicas::new();
        let mut registered = BTreeSet::new();
        let mut registrations = FuturesUnordered::new();
        loop {
            for (address, tls) in missing(&known, &registered) {
                registered.insert(address.clone());
                registrations.push(self.register_once(address, tls));
            }
            tokio::select! {
                biased;
                Some(ended) = registrations.next() => {
                    registered.remove(&ended);
                }
                Some(found) = resolutions.next() => known = found,
            }
        }
    }

    /// Registers with one replica until the registration ends and a pause is over. Returns the replica's address. One that
    /// cannot be used, which a name can resolve to, only pauses: the other replicas keep their registrations.
    pub(super) async fn register_once(&self, address: String, tls: Option<Tls>) -> String {
        let channel = match patient(&address, tls) {
            Ok(channel) => channel,
            Err(error) => {
                tracing::warn!(address, %error, "not registered; again soon");
                tokio::time::sleep(REJECTED).await;
                return address;
            }
        };
        let log = |replica| match replica {
            Replica::Leader => tracing::info!(address, "registered as a driver; this replica leads"),
            Replica::Standby => tracing::info!(address, "registered as a driver; this replica is a standby"),
        };
        let ended = self.run(channel, log).await;
        tracing::warn!(address, reason = %ended, "not registered; again soon");
        let pause = match ended {
            Ended::Broken(_) => AGAIN,
            Ended::Refused(_) => REJECTED,
        };
        tokio::time::sleep(pause).await;
        address
    }
}

/// The replicas of each configured address.
type ByAddress = BTreeMap<String, Replicas>;

/// Resolves all addresses. The last replicas remain those of an address that cannot be resolved now.
async fn resolve(addresses: &[String], tls: Option<&Tls>, mut last: ByAddress) -> ByAddress {
    for address in addresses {
        match channel::replicas(address, tls).await {
            Ok(found) => {
                last.insert(address.clone(), found);
            }
            Err(error) => tracing::warn!(address, %error, "the machine controller's address cannot be resolved"),
        }
    }
    last
}

/// The replicas that need a registration. One that is no longer known keeps its registration until that ends.
fn missing(known: &Replicas, registered: &BTreeSet<String>) -> Vec<(String, Option<Tls>)> {
    let known = known.iter().filter(|(address, _)| !registered.contains(*address));
    known.map(|(address, tls)| (address.clone(), tls.clone())).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::at_the_start(&["a", "b"], &[], &["a", "b"])]
    #[case::a_new_replica(&["a", "b"], &["a"], &["b"])]
    #[case::a_replica_that_is_gone(&["b"], &["a", "b"], &[])]
    #[case::none_is_known(&[], &["a"], &[])]
    fn every_known_replica_has_one_registration(
        #[case] known: &[&str],
        #[case] registered: &[&str],
        #[case] expected: &[&str],
    ) {
        let known = known.iter().map(|address| ((*address).to_owned(), None)).collect();
        let registered = registered.iter().map(|address| (*address).to_owned()).collect();
        let found: Vec<String> = missing(&known, &registered)
            .into_iter()
            .map(|(address, _)| address)
            .collect();
        assert_eq!(found, expected);
    }
}
