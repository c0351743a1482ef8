//! Where the items are defined that a path names.

use std::collections::BTreeSet;

use super::Crate;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entity {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

/// The modules that a path leads to: those that re-export, and the one that defines the item. Paths into other crates
/// lead to the module that imports them.
pub(super) fn targets(of: &Crate, from: usize, path: &[String], is_import: bool) -> Vec<usize> {
    let mut walk = Walk {
        of,
        passed: BTreeSet::new(),
        pending: BTreeSet::new(),
    };
    let ends = walk.resolve(from, path, is_import);
    let ends = ends.into_iter().map(|end| match end {
        Entity::Module(module) | Entity::Item(module) => module,
    });
    walk.passed.into_iter().chain(ends).collect()
}

struct Walk<'a> {
    of: &'a Crate,
    /// The modules whose imports were followed.
    passed: BTreeSet<usize>,
    /// Imports that are being followed, for a name: they may go in circles.
    pending: BTreeSet<(usize, usize, String)>,
}

impl Walk<'_> {
    fn resolve(&mut self, from: usize, path: &[String], is_import: bool) -> Vec<Entity> {
        let mut module = from;
        let mut rest = path;
        while let [first, others @ ..] = rest {
            module = match first.as_str() {
                "crate" => 0,
                "self" => module,
                "super" => match self.of.modules[module].parent {
                    Some(parent) => parent,
                    None => return Vec::new(),
                },
                _ => break,
            };
            rest = others;
        }
        self.descend(module, rest, is_import)
    }

    fn descend(&mut self, module: usize, rest: &[String], is_import: bool) -> Vec<Entity> {
        let [first, others @ ..] = rest else {
            return vec![Entity::Module(module)];
        };
        let mut found = self.look_up(module, first);
        if found.is_empty() {
            // What no item shows, as what a macro generates, or another crate's.
            found.push(Entity::Item(module));
        }
        if others.is_empty() {
            // A name may be a module's and an item's; only an import means modules.
            let ends = found.into_iter();
            return ends.filter(|end| is_import || matches!(end, Entity::Item(_))).collect();
        }
        let child = found.iter().find_map(|end| match end {
            Entity::Module(child) => Some(*child),
            Entity::Item(_) => None,
        });
        match child {
            Some(child) => self.descend(child, others, is_import),
            None => found,
        }
    }

    /// What a name stands for in a module.
    fn look_up(&mut self, module: usize, name: &str) -> Vec<Entity> {
        let here = &self.of.modules[module];
        let mut found = Vec::new();
        if here.names.contains(name) {
            found.push(Entity::Item(module));
        }
        found.extend(here.children.get(name).map(|child| Entity::Module(*child)));
        for (index, import) in here.imports.iter().enumerate() {
            if import.name.as_deref() == Some(name) {
                found.extend(self.import(module, index, name));
            }
        }
        if found.is_empty() {
            for (index, import) in here.imports.iter().enumerate() {
                if import.name.is_none() {
                    found.extend(self.import(module, index, name));
                }
            }
        }
        found
    }

    /// What an import of the module makes a name stand for.
    fn import(&mut self, module: usize, index: usize, name: &str) -> Vec<Entity> {
        let import = &self.of.modules[module].imports[index];
        if !self.pending.insert((module, index, name.to_owned())) {
            return Vec::new();
        }
        let mut found = self.resolve(module, &import.path, true);
        if import.name.is_none() {
            let sources: Vec<Entity> = std::mem::take(&mut found);
            for source in sources {
                if let Entity::Module(source) = source {
                    found.extend(self.look_up(source, name));
                }
            }
        }
        if !found.is_empty() {
            self.passed.insert(module);
        }
        self.pending.remove(&(module, index, name.to_owned()));
        found
    }
}
