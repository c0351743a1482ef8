//! The modules of a crate, read from its source files without test code.

mod references;
mod resolve;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Reads a source file; `None` if it does not exist.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// A failure to read the modules of a crate.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A `mod` item names a file that does not exist.
    #[error("{}: no such file", .0.display())]
    Missing(PathBuf),
    /// The file is not valid Rust.
    #[error("{}: {error}", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The parser's error.
        error: syn::Error,
    },
}

/// The modules of one crate; the first is the root.
#[derive(Debug)]
pub struct Crate {
    /// The crate's name.
    pub name: String,
    /// Parents precede their children.
    pub modules: Vec<Module>,
}

/// One module. Modules of test code are left out.
#[derive(Debug)]
pub struct Module {
    /// Its name; the crate's for the root.
    pub name: String,
    /// The index of the parent module.
    pub parent: Option<usize>,
    /// The child modules' indices by name.
    pub children: BTreeMap<String, usize>,
    /// The file with its code.
    pub file: PathBuf,
    /// Its items, without modules and test code.
    pub items: Vec<syn::Item>,
    names: BTreeSet<String>,
    imports: Vec<Import>,
    references: Vec<Reference>,
}

/// A name that a `use` item imports into a module.
#[derive(Debug)]
struct Import {
    /// `None` for a glob import.
    name: Option<String>,
    path: Vec<String>,
}

/// A path that the code of a module names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Its segments.
    pub path: Vec<String>,
    /// Whether it is part of a `use` item or of an attribute's string, where a path may end at a module.
    pub is_import: bool,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.join("::"))
    }
}

/// A use of an item that a sibling's subtree defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Two children of one module: the one whose subtree uses the item, and the one whose subtree defines it.
    pub siblings: (usize, usize),
    /// The module that uses the item.
    pub by: usize,
    /// The path that it uses.
    pub reference: Reference,
}

impl Crate {
    /// Reads a crate.
    ///
    /// # Errors
    /// If a file is missing or is not valid Rust.
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

    /// The two children of the closest common ancestor that contain `from` and `to`, unless `from` or `to` is that
    /// ancestor.
    fn siblings(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        let (from, to) = (self.ancestors(from), self.ancestors(to));
        let mut pairs = from.into_iter().rev().zip(to.into_iter().rev());
        pairs.find(|(from, to)| from != to)
    }

    /// The module and its ancestors up to the root.
    fn ancestors(&self, module: usize) -> Vec<usize> {
        std::iter::successors(Some(module), |module| self.modules[*module].parent).collect()
    }

    /// The location of the reference, as `file:line`.
    pub fn place(&self, used: &Use, read: ReadFile<'_>) -> String {
        let file = &self.modules[used.by].file;
        let line = read(file).and_then(|text| references::line(&text, &used.reference));
        format!("{}:{}", file.display(), line.unwrap_or(1))
    }
}
