//! Runs on an existing cluster.

use scenario::Timeouts;
use scenario::job::Job;

use crate::plane::Planes;
use crate::plane::existing::{NODE_GRACE, Session};
use crate::{Performer, StageError, StageResult, processes};

impl Session {
    /// Runs a job in a new namespace and removes everything that the run created. If the future is dropped early,
    /// [`Session::end`] removes the rest.
    pub async fn run(&self, job: &Job, performer: &impl Performer) -> StageResult {
        let result = match self.place(&self.namespace_for(job)).await {
            Ok(plane) => tokio::select! {
                biased;
                error = self.taken() => StageResult::new(Err(error.into()), Default::default()),
                result = processes::run(job, performer, Planes::one(plane), Timeouts::on_cluster(NODE_GRACE), None) => {
                    result
                }
            },
            Err(error) => StageResult::new(Err(error.into()), Default::default()),
        };
        result.tidied(Box::pin(self.tidy()).await.map_err(StageError::from))
    }
}
