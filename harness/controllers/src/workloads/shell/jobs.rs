//! The Job controller's watches and views.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::{Scene, Workload, queue_owners};
use crate::workloads::{job, plan};
use crate::{Change, Kind, ObjectKey, Queue, View};

/// The Job controller, including the TTL controller for finished jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs;

impl Workload for Jobs {
    type Root = Job;
    const NAME: &'static str = "job-controller";

    fn reads() -> &'static [Kind] {
        &[Kind::Pod]
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<ObjectKey>) {
        queue_owners::<Job, Pod>(change, view, queue, |job| job.spec.as_ref()?.selector.as_ref());
    }

    fn decide(&mut self, job: &Arc<Job>, scene: Scene<'_>) -> plan::Plan {
        let view = job::View {
            job: Arc::clone(job),
            pods: scene.dependents(&job.metadata),
            failure: scene.failure,
        };
        job::decide(&view, scene.view.now)
    }

    fn after(&mut self, key: &ObjectKey, view: View<'_>) -> plan::Plan {
        let left: Vec<Arc<Pod>> = view
            .caches
            .pods
            .in_namespace(&key.namespace)
            .map(|(_, pod)| pod)
            .filter(|pod| {
                runtime::ownership::controller(&pod.metadata)
                    .is_some_and(|owner| owner.kind == "Job" && owner.name == key.name)
            })
            .cloned()
            .collect();
        job::release_orphans(&left)
    }
}
