//! Checks that the modules of a crate form no cycles: child modules of one module use each other in one direction
//! only.
//!
//! A module uses a sibling if code in its subtree names an item that the sibling's subtree defines. Uses of the
//! parent's items and test code do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Finding;
use crate::modules::{Crate, ReadFile, Use};

/// Allowed cycles.
pub const EXCEPTIONS: &[Exception] = &[];

/// Allows the cycles within one module.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The path of the module whose subtree contains the cycles: `name::a`.
    pub within: &'static str,
    /// The reason for the exception.
    pub reason: &'static str,
}

/// A set of child modules of one module that all use each other, directly or indirectly.
#[derive(Debug)]
pub struct Knot {
    /// The path of their parent module.
    pub within: String,
    /// The number of modules in the cycle.
    pub modules: usize,
    /// One of the shortest cycles, as a sequence of uses.
    cycle: Vec<Use>,
    /// Every use between these modules.
    uses: Vec<Use>,
}

impl Knot {
    /// The shortest cycle, as `a -> b -> a`.
    pub fn names(&self, of: &Crate) -> String {
        let mut names: Vec<&str> = self.cycle.iter().map(|used| name(of, used.siblings.0)).collect();
        names.extend(self.cycle.first().map(|used| name(of, used.siblings.0)));
        names.join(" -> ")
    }

    /// Every use with its location.
    pub fn describe(&self, of: &Crate, read: ReadFile<'_>) -> Vec<String> {
        self.uses.iter().map(|used| line(of, used, read)).collect()
    }
}

fn name(of: &Crate, module: usize) -> &str {
    &of.modules[module].name
}

fn line(of: &Crate, used: &Use, read: ReadFile<'_>) -> String {
    let (from, to) = used.siblings;
    let place = of.place(used, read);
    format!(
        "{} -> {}: {place} names {}",
        name(of, from),
        name(of, to),
        used.reference
    )
}

/// Reports the cycles of all crates.
pub fn check(crates: &[Crate], exceptions: &[Exception], read: ReadFile<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = BTreeSet::new();
    for of in crates {
        for knot in knots(of) {
            let path = format!("{}::", knot.within);
            let covers = |exception: &&Exception| path.starts_with(&format!("{}::", exception.within));
            if let Some(exception) = exceptions.iter().find(covers) {
                needed.insert(exception.within);
                continue;
            }
            let uses: Vec<String> = knot.cycle.iter().map(|used| line(of, used, read)).collect();
            findings.push(format!(
                "the modules of {} form a cycle: {}; move what both need below them\n    {}",
                knot.within,
                knot.names(of),
                uses.join("\n    ")
            ));
        }
    }
    let useless = exceptions.iter().filter(|exception| !needed.contains(exception.within));
    findings.extend(useless.map(|exception| {
        format!(
            "no modules within {} form a cycle: remove the exception in ci/tidy/src/cycles.rs",
            exception.within
        )
    }));
    findings
}

/// The uses of child modules, by user and used module.
type Graph = BTreeMap<usize, BTreeMap<usize, Vec<Use>>>;

/// All cycles of a crate.
pub fn knots(of: &Crate) -> Vec<Knot> {
    let mut graph = Graph::new();
    for used in of.uses() {
        let (from, to) = used.siblings;
        let uses = graph.entry(from).or_default().entry(to).or_default();
        // An imported name is used in several places; the import represents them.
        match uses.first() {
            Some(first) if first.reference.is_import && !used.reference.is_import => continue,
            Some(first) if !first.reference.is_import && used.reference.is_import => uses.clear(),
            _ => {}
        }
        uses.push(used);
    }
    let mut knots = Vec::new();
    let mut seen = BTreeSet::<usize>::new();
    for start in graph.keys() {
        if seen.contains(start) {
            continue;
        }
        let reached = reach(&graph, *start);
        let members: BTreeSet<usize> = reached
            .into_iter()
            .filter(|module| reach(&graph, *module).contains(start))
            .collect();
        if !members.contains(start) {
            continue;
        }
        seen.extend(&members);
        let cycles = members.iter().filter_map(|member| shortest(&graph, *member));
        let Some(cycle) = cycles.min_by_key(Vec::len) else {
            continue;
        };
        let uses = graph
            .iter()
            .filter(|(from, _)| members.contains(from))
            .flat_map(|(_, to)| to);
        let uses = uses.filter(|(to, _)| members.contains(to)).flat_map(|(_, uses)| uses);
        knots.push(Knot {
            within: of.modules[*start]
                .parent
                .map_or_else(String::new, |parent| of.path(parent)),
            modules: members.len(),
            cycle,
            uses: uses.cloned().collect(),
        });
    }
    knots
}

/// The modules that a module uses, directly or indirectly.
fn reach(graph: &Graph, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        let used = graph.get(&module).into_iter().flat_map(BTreeMap::keys);
        next.extend(used.filter(|used| reached.insert(**used)));
    }
    reached
}

/// One of the shortest cycles through a module.
fn shortest(graph: &Graph, through: usize) -> Option<Vec<Use>> {
    let mut queue = VecDeque::from([(through, Vec::new())]);
    let mut seen = BTreeSet::new();
    while let Some((module, path)) = queue.pop_front() {
        for (to, uses) in graph.get(&module).into_iter().flatten() {
            let path: Vec<Use> = path.iter().chain(uses.first()).cloned().collect();
            if *to == through {
                return Some(path);
            }
            if seen.insert(*to) {
                queue.push_back((*to, path));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
