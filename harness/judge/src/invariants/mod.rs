//! Invariants: what must hold at every moment of every scenario. A breach ends the run at once.
//!
//! What lives here: one check a file (two that share their objects stand together), and the table of all. A check sees
//! every event once, in order: every commit of any object that is watched, every change of the ledger, every call of the
//! driver, and, where the server is ours, every request of the controller. Nothing is polled; what must have happened by
//! some time names that time. What must not live here: expectations of one scenario.

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
mod limits;
mod named;
mod no_healthy_vm_collected;
mod no_leak;
mod one_replacement;
mod one_vm;
mod preservation;
mod silence;
mod size;
mod starvation;
mod victims;

use jiff::Timestamp;
use scenario::observation::Observation;
use serde_json::Value;

pub use self::check_context::{CheckContext, JudgingRules, ServerTruth};
pub use self::frozen::may_lead;
pub use self::preservation::limit as preserved_at_most;
pub use crate::interest::Interest;
pub use crate::object::{after, annotation, is_deleting, label, owner};
use crate::world::WorldState;
pub use crate::world::machines_of;

/// Watches for one invariant over one run.
trait Check: std::fmt::Debug + Send {
    /// Sees an event; what is broken, with names and times.
    fn see(&mut self, context: &CheckContext) -> Option<String>;

    /// When something will be late; `None`: nothing is awaited.
    fn due(&self, _: &JudgingRules) -> Option<Timestamp> {
        None
    }

    /// Some time that [`Check::due`] named has come; what is late.
    fn overdue(&mut self, _: Timestamp, _: &WorldState, _: &JudgingRules) -> Option<String> {
        None
    }
}

/// One invariant.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Its short name, as in `I1`.
    pub name: &'static str,
    /// What it says.
    pub statement: &'static str,
    /// What there is of it to see today.
    pub bites: Bites,
    check: fn() -> Box<dyn Check>,
}

/// What there is of an invariant to see today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bites {
    /// Whatever the controller does is judged.
    Yes,
    /// A part; the other waits for a controller that does not exist yet.
    InPart(&'static str),
    /// It holds trivially: nothing does what it is about.
    NotYet(&'static str),
}

/// All invariants, checked in this order.
pub static ALL: [Invariant; 19] = [
    Invariant {
        name: "I1",
        statement: "at most one live VM carries a Machine's uid; a stopped VM is live",
        bites: Bites::Yes,
        check: || Box::new(one_vm::OneVm),
    },
    Invariant {
        name: "I2",
        statement: "when a Machine object is removed no VM of it is left, and after a quiet time no VM lacks a Machine",
        bites: Bites::Yes,
        check: || Box::new(no_leak::NoLeak),
    },
    Invariant {
        name: "I3",
        statement: "the VM of a Machine that is not Terminating is never deleted as an orphan",
        bites: Bites::Yes,
        check: || Box::new(no_healthy_vm_collected::NoHealthyVmCollected::default()),
    },
    Invariant {
        name: "I4",
        statement: "Machines that are preserved automatically stay within their deployment's and set's limit",
        bites: Bites::Yes,
        check: || Box::new(preservation::Limit::default()),
    },
    Invariant {
        name: "I5",
        statement: "a Machine that fails and asks to be preserved is, and a preserved one's VM lives until its expiry or a legal release",
        bites: Bites::Yes,
        check: || Box::<preservation::Lives>::default(),
    },
    Invariant {
        name: "I6",
        statement: "until the drain timeout pods leave by eviction alone, and a VM waits for them",
        bites: Bites::Yes,
        check: || Box::new(budgets::Budgets),
    },
    Invariant {
        name: "I7",
        statement: "a deployment has neither more Machines than replicas and surge nor fewer available than it allows",
        bites: Bites::Yes,
        check: || Box::new(size::Size::default()),
    },
    Invariant {
        name: "I8",
        statement: "without a valid Lease, or frozen, nobody makes or deletes anything",
        bites: Bites::InPart("Lease and outages of the API server are judged in virtual time"),
        check: || Box::new(frozen::Frozen::default()),
    },
    Invariant {
        name: "I9",
        statement: "creations are bounded by what is asked for and lost, follow the retry table, and stop with the Machine",
        bites: Bites::Yes,
        check: || Box::new(bounded_creation::BoundedCreation::default()),
    },
    Invariant {
        name: "I10",
        statement: "nodes that are not ours are never written to, and a person's cordon and annotations stay",
        bites: Bites::Yes,
        check: || Box::new(foreign::ForeignIntent),
    },
    Invariant {
        name: "I11",
        statement: "in the quiet time at the end no object is written",
        bites: Bites::Yes,
        check: || Box::new(silence::Silence::default()),
    },
    Invariant {
        name: "I12",
        statement: "at most one Machine of a deployment is in replacement because of the health timeout",
        bites: Bites::Yes,
        check: || Box::new(one_replacement::OneReplacementAtATime),
    },
    Invariant {
        name: "I13",
        statement: "timeouts end neither early nor late",
        bites: Bites::InPart("creation, health, drain, tokens and preservation; detaching is not timed"),
        check: || Box::new((limits::Limits::default(), expiry::Expiries::default())),
    },
    Invariant {
        name: "I14",
        statement: "creations and deletions begin within a minute",
        bites: Bites::Yes,
        check: || Box::new(starvation::Starvation::default()),
    },
    Invariant {
        name: "I15",
        statement: "what is removed is what was asked for, and nothing is made to be removed",
        bites: Bites::Yes,
        check: || Box::new(victims::Victims::default()),
    },
    Invariant {
        name: "I16",
        statement: "a deletion leaves nothing behind, and nothing stays Terminating",
        bites: Bites::Yes,
        check: || Box::new(clean_end::CleanEnd::default()),
    },
    Invariant {
        name: "I17",
        statement: "a feature that no object uses changes nothing (a pair of runs)",
        bites: Bites::InPart("preservation, over pairs of runs: the corpus compares them"),
        check: || Box::new(PairOfRuns),
    },
    Invariant {
        name: "I18",
        statement: "requests for one object stay under 30 a minute",
        bites: Bites::Yes,
        check: || Box::new(api_budget::ApiBudget::default()),
    },
    Invariant {
        name: "I19",
        statement: "Machine, Node and VM agree with each other, a provider id never changes, and who is kept is not called failed",
        bites: Bites::Yes,
        check: || Box::new((coherent::Coherent::default(), blame::Blame::default())),
    },
];

/// Two parts of one invariant.
impl<A: Check, B: Check> Check for (A, B) {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        let (one, other) = (self.0.see(context), self.1.see(context));
        one.or(other)
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        self.0.due(rules).into_iter().chain(self.1.due(rules)).min()
    }

    fn overdue(&mut self, now: Timestamp, world: &WorldState, rules: &JudgingRules) -> Option<String> {
        let (one, other) = (self.0.overdue(now, world, rules), self.1.overdue(now, world, rules));
        one.or(other)
    }
}

/// I17 is judged over two runs ([`inert`]); one alone shows nothing of it.
#[derive(Debug)]
struct PairOfRuns;

impl Check for PairOfRuns {
    fn see(&mut self, _: &CheckContext) -> Option<String> {
        None
    }
}

/// A breach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant.
    pub invariant: &'static str,
    /// What it says.
    pub statement: &'static str,
    /// The objects that break it.
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

/// All invariants over one run.
#[derive(Debug)]
pub struct Invariants {
    /// Under what they are judged.
    pub rules: JudgingRules,
    checks: Vec<(&'static Invariant, Box<dyn Check>)>,
    /// Up to when it was asked what is late.
    asked: Timestamp,
}

impl Invariants {
    /// At the beginning of a run.
    pub fn new(rules: JudgingRules) -> Self {
        let checks = ALL.iter().map(|invariant| (invariant, (invariant.check)())).collect();
        Self {
            rules,
            checks,
            asked: Timestamp::MIN,
        }
    }

    /// Shows them an event; the first breach. `before` is the object as it was, `truth` the Machine of a call as the
    /// server has it now.
    pub fn see(
        &mut self,
        world: &WorldState,
        observation: &Observation,
        before: Option<&Value>,
        truth: &ServerTruth,
    ) -> Option<Violation> {
        let context = CheckContext {
            world,
            observation,
            before,
            truth,
            rules: &self.rules,
        };
        let mut found = None;
        for (invariant, check) in &mut self.checks {
            // Every check sees every event, also when another one has found something.
            let objects = check.see(&context);
            found = found.or(objects.map(|objects| breach(invariant, objects)));
        }
        found
    }

    /// When something will be late that was not late when it was asked last.
    pub fn due(&self) -> Option<Timestamp> {
        let dues = self.checks.iter().filter_map(|(_, check)| check.due(&self.rules));
        dues.filter(|due| *due > self.asked).min()
    }

    /// The time that [`Self::due`] named has come, or passed; the first breach.
    pub fn overdue(&mut self, now: Timestamp, world: &WorldState) -> Option<Violation> {
        self.asked = now;
        let rules = &self.rules;
        self.checks.iter_mut().find_map(|(invariant, check)| {
            if check.due(rules).is_none_or(|due| due > now) {
                return None;
            }
            check
                .overdue(now, world, rules)
                .map(|objects| breach(invariant, objects))
        })
    }
}

fn breach(invariant: &Invariant, objects: String) -> Violation {
    Violation {
        invariant: invariant.name,
        statement: invariant.statement,
        objects,
    }
}

#[cfg(test)]
mod tests;
