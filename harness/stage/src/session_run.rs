//! Runs on an existing cluster.

use scenario::Timeouts;
use scenario::job::Job;

use crate::plane::Planes;
use crate::plane::existing::{NODE_GRACE, Session};
use crate::{Performer, StageError, StageResult, processes};

impl Session {
    /// Runs a job in a new namespace and removes everything that it made. Dropped on the way, the rest is left to
    /// [`Session::end`].
    pub async fn run(&self, job: &Job, performer: &impl Performer) -> StageResult {
        let ran = match self.place(&self.namespace_for(job)).await {
            Ok(plane) => tokio::select! {
                biased;
                error = self.taken() => StageResult::new(Err(error.into()), Default::default()),
                ran = processes::run(job, performer, Planes::one(plane), Timeouts::on_cluster(NODE_GRACE), None) => ran,
            },
            Err(error) => StageResult::new(Err(error.into()), Default::default()),
        };
        ran.tidied(Box::pin(self.tidy()).await.map_err(StageError::from))
    }
}
