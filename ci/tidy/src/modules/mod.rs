//! The modules of a crate as its source files show them, without test code.

mod references;
mod resolve;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Reads a source file; `None` when there is none.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Why the modules of a crate cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A `mod` item names it.
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// Its text is no Rust.
    #[error("{}: {error}", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What the parser found.
        error: syn::Error,
    },
}

/// The modules of one crate; the first is its root.
#[derive(Debug)]
pub struct Crate {
    /// The crate's name.
    pub name: String,
    /// Parents stand before their children.
    pub modules: Vec<Module>,
}

/// One module. Modules of test code are left out.
#[derive(Debug)]
pub struct Module {
    /// Its name; the crate's for the root.
    pub name: String,
    /// The index of the module that holds it.
    pub parent: Option<usize>,
    /// The child modules' indices by name.
    pub children: BTreeMap<String, usize>,
    /// The file that holds its code.
    pub file: PathBuf,
    /// What it defines, apart from modules and test code.
    pub items: Vec<syn::Item>,
    names: BTreeSet<String>,
    imports: Vec<Import>,
    references: Vec<Reference>,
}

/// A name that a `use` brings into a module.
#[derive(Debug)]
struct Import {
    /// `None` when it brings all names.
    name: Option<String>,
    path: Vec<String>,
}

/// A path that the code of a module names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Its segments.
    pub path: Vec<String>,
    /// Whether it stands in a `use`, or in an attribute's string, where a path may end at a module.
    pub is_import: bool,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.join("::"))
    }
}

/// A module's code names an item of a sibling's subtree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The children of one module: whose subtree names the item, and whose subtree defines it.
    pub siblings: (usize, usize),
    /// The module whose code it is.
    pub by: usize,
    /// What it names.
    pub reference: Reference,
}

impl Crate {
    /// Reads a crate.
    ///
    /// # Errors
    /// When a file is missing or no Rust.
    pub fn read(name: &str, root: &Path, read: ReadFile<'_>) -> Result<Self, ReadError> {
        let mut modules = tree::read(name, root, read)?;
        for module in &mut modules {
            references::collect(module);
        }
        let name = name.to_owned();
        Ok(Self { name, modules })
    }

    /// The module's path: `name::a::b`.
    pub fn path(&self, module: usize) -> String {
        let names = self.ancestors(module).into_iter().rev();
        let names: Vec<&str> = names.map(|module| self.modules[module].name.as_str()).collect();
        names.join("::")
    }

    /// Every use of a sibling's items, in all modules.
    pub fn uses(&self) -> BTreeSet<Use> {
        let mut uses = BTreeSet::new();
        for (by, module) in self.modules.iter().enumerate() {
            for reference in &module.references {
                let targets = resolve::targets(self, by, &reference.path, reference.is_import);
                uses.extend(targets.into_iter().filter_map(|target| {
                    let siblings = self.siblings(by, target)?;
                    let reference = reference.clone();
                    Some(Use {
                        siblings,
                        by,
                        reference,
                    })
                }));
            }
        }
        uses
    }

    /// The two children of the closest common ancestor that hold `from` and `to`, unless one of these is that ancestor.
    fn siblings(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        let (from, to) = (self.ancestors(from), self.ancestors(to));
        let mut pairs = from.into_iter().rev().zip(to.into_iter().rev());
        pairs.find(|(from, to)| from != to)
    }

    /// The module and all modules that hold it, up to the root.
    fn ancestors(&self, module: usize) -> Vec<usize> {
        std::iter::successors(Some(module), |module| self.modules[*module].parent).collect()
    }

    /// Where the reference stands, as `file:line`.
    pub fn place(&self, used: &Use, read: ReadFile<'_>) -> String {
        let file = &self.modules[used.by].file;
        let line = read(file).and_then(|text| references::line(&text, &used.reference));
        format!("{}:{}", file.display(), line.unwrap_or(1))
    }
}
