//! Invariants: rules that hold at every moment of every scenario. A violation ends the run at once.
//!
//! Each file contains one check, or two that share their state. A check receives every event once, in order: every
//! commit of a watched object, every change of the ledger, every driver call and, if the harness runs the API server,
//! every request of the controller. Checks do not poll: a check with a deadline returns it from `Check::due`.

mod api_budget;
mod blame;
mod bounded_creation;
mod budgets;
mod check_context;
mod clean_end;
mod coherent;
mod expiry;
mod foreign;
mod frozen;
pub mod inert;
mod judging_rules;
mod limits;
mod named;
mod no_healthy_vm_collected;
mod no_leak;
mod observed_remediation;
mod one_attachment;
mod one_pod;
mod one_replacement;
mod one_vm;
mod preservation;
mod prompt_remediation;
mod remediation_budget;
mod silence;
mod size;
mod starvation;
mod unconfirmed;
mod valid_status;
mod victims;

use jiff::Timestamp;
use scenario::observation::Observation;
use serde_json::Value;

pub use self::check_context::{CheckContext, ServerTruth};
pub use self::frozen::may_lead;
pub use self::judging_rules::JudgingRules;
pub use self::no_leak::vms_without_machine;
pub use self::preservation::limit as preserved_at_most;
use self::unconfirmed::UnconfirmedPods;
pub use crate::interest::Interest;
pub use crate::object::{after, annotation, is_deleting, label, owner};
use crate::remediation::deleted_machine;
use crate::world::WorldState;
pub use crate::world::machines_of;

/// Checks one invariant over one run.
trait Check: std::fmt::Debug + Send {
    /// Processes an event. Returns a violation with names and times.
    fn observe(&mut self, context: &CheckContext) -> Option<String>;

    /// The next deadline; `None`: none is pending.
    fn due(&self, _: &JudgingRules) -> Option<Timestamp> {
        None
    }

    /// Called when a time that [`Check::due`] returned has come. Returns a violation if a deadline has passed.
    fn overdue(&mut self, _: Timestamp, _: &WorldState, _: &JudgingRules) -> Option<String> {
        None
    }

    /// Whether a single run can violate it.
    fn is_evaluated(&self) -> bool {
        true
    }
}

/// One invariant.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Short name, for example `I1`.
    pub name: &'static str,
    /// The rule in one sentence.
    pub statement: &'static str,
    /// How much of the rule is checked.
    pub coverage: Coverage,
    check: fn() -> Box<dyn Check>,
}

impl Invariant {
    /// Whether a single run can violate it. Others compare two runs.
    pub fn is_of_one_run(&self) -> bool {
        (self.check)().is_evaluated()
    }
}

/// How much of an invariant is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The whole rule is checked.
    Full,
    /// A part of the rule is checked, with an explanation.
    Partial(&'static str),
    /// The rule holds trivially, with the reason.
    Nothing(&'static str),
}

/// All invariants, checked in this order.
pub static ALL: [Invariant; 25] = [
    Invariant {
        name: "I1",
        statement: "at most one live VM carries a Machine's uid; a stopped VM is live",
        coverage: Coverage::Full,
        check: || Box::new(one_vm::OneVm),
    },
    Invariant {
        name: "I2",
        statement: "when a Machine object disappears it has no VM left, and after the time to settle at the end every VM has a Machine",
        coverage: Coverage::Full,
        check: || Box::new(no_leak::NoLeak),
    },
    Invariant {
        name: "I3",
        statement: "the VM of a Machine that is not Terminating is never deleted as an orphan",
        coverage: Coverage::Full,
        check: || Box::new(no_healthy_vm_collected::NoHealthyVmCollected::default()),
    },
    Invariant {
        name: "I4",
        statement: "automatically preserved Machines stay within the limit of their deployment and set",
        coverage: Coverage::Full,
        check: || Box::new(preservation::Limit::default()),
    },
    Invariant {
        name: "I5",
        statement: "a failing Machine that requests preservation is preserved, and its VM lives until the expiry or a legal release",
        coverage: Coverage::Full,
        check: || Box::<preservation::PreservedVmLives>::default(),
    },
    Invariant {
        name: "I6",
        statement: "until the drain timeout pods leave only by eviction, and the VM is not deleted before they have left",
        coverage: Coverage::Full,
        check: || Box::new(budgets::Budgets),
    },
    Invariant {
        name: "I7",
        statement: "a deployment has at most replicas plus maxSurge Machines, and at least replicas minus maxUnavailable available ones",
        coverage: Coverage::Full,
        check: || Box::new(size::Size::default()),
    },
    Invariant {
        name: "I8",
        statement: "without a valid Lease, or while frozen, no process creates or deletes anything",
        coverage: Coverage::Partial("Lease and outages of the API server are checked in virtual time only"),
        check: || Box::new(frozen::Frozen::default()),
    },
    Invariant {
        name: "I9",
        statement: "creations are bounded by the requested and the lost Machines, follow the retry table, and stop with the Machine",
        coverage: Coverage::Full,
        check: || Box::new(bounded_creation::BoundedCreation::default()),
    },
    Invariant {
        name: "I10",
        statement: "foreign nodes are never written to, and the cordons and annotations of a user are kept",
        coverage: Coverage::Full,
        check: || Box::new(foreign::ForeignIntent),
    },
    Invariant {
        name: "I11",
        statement: "no object is written after the time to settle at the end",
        coverage: Coverage::Full,
        check: || Box::new(silence::Silence::default()),
    },
    Invariant {
        name: "I12",
        statement: "at most one Machine of a deployment is being replaced because of the health timeout",
        coverage: Coverage::Full,
        check: || Box::new(one_replacement::OneReplacementAtATime::default()),
    },
    Invariant {
        name: "I13",
        statement: "timeouts expire neither early nor late",
        coverage: Coverage::Partial(
            "creation, health, drain, bootstrap tokens and preservation; volume detach is not timed",
        ),
        check: || Box::new((limits::Limits::default(), expiry::Expiries::default())),
    },
    Invariant {
        name: "I14",
        statement: "creations and deletions start within a minute",
        coverage: Coverage::Full,
        check: || Box::new(starvation::Starvation::default()),
    },
    Invariant {
        name: "I15",
        statement: "only the requested Machines are removed, in the documented order, and no Machine is created just to be removed",
        coverage: Coverage::Full,
        check: || Box::new(victims::Victims::default()),
    },
    Invariant {
        name: "I16",
        statement: "a deletion leaves no object behind, and no object stays Terminating",
        coverage: Coverage::Full,
        check: || Box::new(clean_end::CleanEnd::default()),
    },
    Invariant {
        name: "I17",
        statement: "a feature that no object uses changes nothing (compares two runs)",
        coverage: Coverage::Partial("preservation; the regression corpus compares the two runs"),
        check: || Box::new(PairOfRuns),
    },
    Invariant {
        name: "I18",
        statement: "requests for one object stay below 30 per minute",
        coverage: Coverage::Full,
        check: || Box::new(api_budget::ApiBudget::default()),
    },
    Invariant {
        name: "I19",
        statement: "Machine, Node and VM are consistent, a provider ID never changes, and a preserved Machine is not reported as failed",
        coverage: Coverage::Full,
        check: || Box::new((coherent::Coherent::default(), blame::Blame::default())),
    },
    Invariant {
        name: "I20",
        statement: "no two pods of one StatefulSet ordinal live at the same time because mcm removed one",
        coverage: Coverage::Partial("a pod that a kubelet, Kubernetes or a user removes is theirs"),
        check: || Box::new(one_pod::OnePodOfAnOrdinal),
    },
    Invariant {
        name: "I21",
        statement: "no ReadWriteOnce volume is attached to a running VM while a pod on another running VM uses it, because of mcm",
        coverage: Coverage::Partial("what a kubelet, Kubernetes or a user does is theirs"),
        check: || Box::new(one_attachment::OneRunningUser),
    },
    Invariant {
        name: "I22",
        statement: "no status that mcm writes is refused as invalid",
        coverage: Coverage::Full,
        check: || Box::new(valid_status::ValidStatus),
    },
    Invariant {
        name: "I23",
        statement: "a health check has never more Machines in remediation than its limits allow, and none that is deleted or excluded",
        coverage: Coverage::Partial("the lower end of a range is not checked"),
        check: || Box::new(remediation_budget::RemediationBudget::default()),
    },
    Invariant {
        name: "I24",
        statement: "a health check requests nothing because of what it has not observed since its last connection",
        coverage: Coverage::Full,
        check: || Box::new(observed_remediation::ObservedRemediation::default()),
    },
    Invariant {
        name: "I25",
        statement: "each unhealthy Machine is marked and requested within one pass after it may, and a request ends with its check",
        coverage: Coverage::Full,
        check: || Box::new(prompt_remediation::PromptRemediation::default()),
    },
];

/// An invariant that has two checks.
impl<A: Check, B: Check> Check for (A, B) {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        let (first, second) = (self.0.observe(context), self.1.observe(context));
        first.or(second)
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        self.0.due(rules).into_iter().chain(self.1.due(rules)).min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let (first, second) = (self.0.overdue(now, world, rules), self.1.overdue(now, world, rules));
        first.or(second)
    }
}

/// I17 is judged over two runs ([`inert`]), so it checks nothing in a single run.
#[derive(Debug)]
struct PairOfRuns;

impl Check for PairOfRuns {
    fn observe(&mut self, _: &CheckContext) -> Option<String> {
        None
    }

    fn is_evaluated(&self) -> bool {
        false
    }
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// The rule in one sentence.
    pub statement: &'static str,
    /// The objects that violate it, with times.
    pub objects: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "invariant {} is broken ({}): {}",
            self.invariant, self.statement, self.objects
        )
    }
}

/// How often an invariant was evaluated in a run.
#[derive(Clone, Copy, Debug)]
pub struct Evaluations {
    /// The invariant.
    pub invariant: &'static Invariant,
    /// The number of events and deadlines at which it was evaluated.
    pub count: u64,
    /// The first evaluation.
    pub first: Option<Timestamp>,
    /// The last evaluation.
    pub last: Option<Timestamp>,
}

impl Evaluations {
    fn add(&mut self, at: Timestamp) {
        self.count += 1;
        self.first.get_or_insert(at);
        self.last = Some(at);
    }
}

/// All invariants over one run.
#[derive(Debug)]
pub struct Invariants {
    /// The rules under which they are judged.
    pub rules: JudgingRules,
    checks: Vec<(&'static Invariant, Box<dyn Check>)>,
    /// In the order of `checks`.
    evaluations: Vec<Evaluations>,
    unconfirmed: UnconfirmedPods,
    /// Time of the last call of [`Self::overdue`].
    last_overdue_check: Timestamp,
}

impl Invariants {
    /// The state at the beginning of a run.
    pub fn new(rules: JudgingRules) -> Self {
        let checks = ALL.iter().map(|invariant| (invariant, (invariant.check)())).collect();
        Self {
            rules,
            checks,
            evaluations: ALL.iter().map(not_evaluated).collect(),
            unconfirmed: UnconfirmedPods::default(),
            last_overdue_check: Timestamp::MIN,
        }
    }

    /// Passes an event to all checks. Returns the first violation. `before` is the object's previous version, `truth`
    /// the current Machine on the API server for a call about it.
    pub fn observe(
        &mut self,
        world: &WorldState,
        observation: &Observation,
        before: Option<&Value>,
        truth: &ServerTruth,
    ) -> Option<Violation> {
        if let Some(machine) = observation.what.applied_any().and_then(deleted_machine) {
            // The remediation controller is not mcm's.
            self.rules.touched("Machine", machine);
            let deleted = ("Machine".to_owned(), machine.to_owned());
            self.rules.deleted_by_user.insert(deleted);
        }
        self.unconfirmed.observe(world, observation, &self.rules);
        let context = CheckContext {
            world,
            observation,
            before,
            truth,
            rules: &self.rules,
            unconfirmed: &self.unconfirmed,
        };
        let mut found = None;
        for ((invariant, check), evaluations) in self.checks.iter_mut().zip(&mut self.evaluations) {
            // Every check receives every event, even after another one has reported a violation.
            let objects = check.observe(&context);
            if check.is_evaluated() {
                evaluations.add(observation.at);
            }
            found = found.or(objects.map(|objects| violation(invariant, objects)));
        }
        found
    }

    /// How often each invariant was evaluated so far.
    pub fn evaluations(&self) -> &[Evaluations] {
        &self.evaluations
    }

    /// The next deadline after the last call of [`Self::overdue`].
    pub fn due(&self) -> Option<Timestamp> {
        let dues = self.checks.iter().filter_map(|(_, check)| check.due(&self.rules));
        dues.filter(|due| *due > self.last_overdue_check).min()
    }

    /// Called at or after the time that [`Self::due`] returned. Returns the first violation.
    pub fn overdue(&mut self, now: Timestamp, world: &WorldState) -> Option<Violation> {
        self.last_overdue_check = now;
        let rules = &self.rules;
        let mut checks = self.checks.iter_mut().zip(&mut self.evaluations);
        checks.find_map(|((invariant, check), evaluations)| {
            if check.due(rules).is_none_or(|due| due > now) {
                return None;
            }
            evaluations.add(now);
            check
                .overdue(now, world, rules)
                .map(|objects| violation(invariant, objects))
        })
    }
}

fn not_evaluated(invariant: &'static Invariant) -> Evaluations {
    Evaluations {
        invariant,
        count: 0,
        first: None,
        last: None,
    }
}

fn violation(invariant: &Invariant, objects: String) -> Violation {
    Violation {
        invariant: invariant.name,
        statement: invariant.statement,
        objects,
    }
}

#[cfg(test)]
mod tests;
