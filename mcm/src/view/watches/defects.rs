//! Changes by planted defects to watches.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use mcm_api::Machine;

use super::{ClusterState, Trigger};
use crate::cache::{AnyCache as _, Key};
use crate::view::work::Work;

impl ClusterState {
    /// A watch that ends after its first list.
    pub(super) fn read_once(&self, secrets: BoxStream<'static, Vec<Trigger>>) -> BoxStream<'static, Vec<Trigger>> {
        let cache = self.secrets.clone();
        stream::unfold(secrets, move |mut secrets| {
            let over = cache.synced();
            async move {
                if over {
                    return None;
                }
                secrets.next().await.map(|triggers| (triggers, secrets))
            }
        })
        .boxed()
    }

    /// Triggers an immediate retry of the machines of a class that are being deleted.
    pub(crate) fn deleted_of_class(&self, class: &str) -> Vec<Trigger> {
        let machines = self.machines_of_class(class).into_iter();
        let deleted = machines.filter(|machine| machine.metadata.deletion_timestamp.is_some());
        let again = |machine: Arc<Machine>| Trigger {
            work: Work::Machine(Key::of(&*machine)),
            hurry: true,
        };
        deleted.map(again).collect()
    }
}
