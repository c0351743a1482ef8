//! The work of the controllers, and which controllers run.

use crate::cache::Key;

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Machine(Key),
    Class(Key),
    Secret(Key),
    Set(Key),
    Deployment(Key),
    HealthCheck(Key),
    /// The machines that a health check failed and that no check evaluates any more.
    UncheckedMachines,
    Overshoot,
}

/// Work, and whether an edit caused it, which ends a wait for a retry (`hurry`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) work: Work,
    pub(crate) hurry: bool,
}

/// Which controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnabledControllers {
    pub(crate) machines: bool,
    pub(crate) sets: bool,
    pub(crate) deployments: bool,
    pub(crate) health_checks: bool,
}

impl EnabledControllers {
    /// Whether sets and deployments are watched. Decisions about machines use their lists of preserved machines.
    pub(crate) fn owners(self) -> bool {
        self.machines || self.sets || self.deployments
    }

    /// Whether health checks are the only controller, which needs machines and Nodes only.
    pub(crate) fn only_health_checks(self) -> bool {
        self.health_checks && !self.owners()
    }

    pub(crate) fn runs(self, work: &Work) -> bool {
        match work {
            Work::Machine(_) | Work::Class(_) | Work::Secret(_) => self.machines,
            Work::Set(_) | Work::Overshoot => self.sets,
            Work::Deployment(_) => self.deployments,
            Work::HealthCheck(_) | Work::UncheckedMachines => self.health_checks,
        }
    }
}

pub(crate) fn quiet(work: Work) -> Trigger {
    Trigger { work, hurry: false }
}
