//! The rule that public functions say by a type what went wrong: no `Result<_, String>`, which a caller can only print,
//! and no `Result` of a `Result` or `Option` of an `Option`, whose layers have no names.

use std::fmt;

use syn::visit::{self, Visit};
use syn::{GenericArgument, ImplItem, Item, PathArguments, Signature, TraitItem, Type, TypePath, Visibility};

use crate::Finding;
use crate::modules::{Crate, Module, ReadFile};

/// What a signature must not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// `Result<_, String>`.
    TextAsError,
    /// `Result<Result<_, _>, _>`.
    NestedResult,
    /// `Option<Option<_>>`.
    NestedOption,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TextAsError => "Result<_, String>: make the error an enum with thiserror",
            Self::NestedResult => "a Result of a Result: name its cases in an enum",
            Self::NestedOption => "an Option of an Option: name its cases in an enum",
        })
    }
}

/// A public function or type alias with such a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Where it is defined.
    pub file: String,
    /// Its name.
    pub name: String,
    /// What its signature contains.
    pub problem: Problem,
}

/// Checks all crates.
pub fn check(crates: &[Crate], read: ReadFile<'_>) -> Vec<Finding> {
    let opaque = crates.iter().flat_map(opaque);
    opaque
        .map(|Opaque { file, name, problem }| {
            let text = read(file.as_ref()).unwrap_or_default();
            let line = text
                .lines()
                .position(|line| line.contains(name.as_str()))
                .map_or(1, |index| index + 1);
            format!("{file}:{line}: the signature of {name} contains {problem}")
        })
        .collect()
}

/// All such functions and aliases of a crate.
pub fn opaque(of: &Crate) -> Vec<Opaque> {
    of.modules.iter().flat_map(of_module).collect()
}

fn of_module(module: &Module) -> Vec<Opaque> {
    let aliases = text_aliases(module);
    let problem = |signature: &Signature| Search::run(&aliases, |search| search.visit_signature(signature));
    let mut found = Vec::new();
    let mut add = |name: String, problem: Option<Problem>| {
        let file = module.file.display().to_string();
        found.extend(problem.map(|problem| Opaque { file, name, problem }));
    };
    for item in &module.items {
        match item {
            Item::Fn(item) if is_public(&item.vis) => add(format!("fn {}", item.sig.ident), problem(&item.sig)),
            Item::Type(item) if is_public(&item.vis) => {
                let problem = Search::run(&aliases, |search| search.visit_type(&item.ty));
                add(format!("type {}", item.ident), problem);
            }
            Item::Trait(item) if is_public(&item.vis) => {
                for item in &item.items {
                    if let TraitItem::Fn(item) = item {
                        add(format!("fn {}", item.sig.ident), problem(&item.sig));
                    }
                }
            }
            Item::Impl(item) if item.trait_.is_none() => {
                for item in &item.items {
                    if let ImplItem::Fn(item) = item
                        && is_public(&item.vis)
                    {
                        add(format!("fn {}", item.sig.ident), problem(&item.sig));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The names of the module's aliases for a `Result` with a text as its error.
fn text_aliases(module: &Module) -> Vec<String> {
    let aliases = module.items.iter().filter_map(|item| match item {
        Item::Type(item) => Some(item),
        _ => None,
    });
    aliases
        .filter(|item| Search::run(&[], |search| search.visit_type(&item.ty)) == Some(Problem::TextAsError))
        .map(|item| item.ident.to_string())
        .collect()
}

/// Looks for the first problem.
struct Search<'a> {
    /// Names of types that are a `Result` with a text as its error.
    aliases: &'a [String],
    found: Option<Problem>,
}

impl<'a> Search<'a> {
    fn run(aliases: &'a [String], visit: impl FnOnce(&mut Self)) -> Option<Problem> {
        let mut search = Self { aliases, found: None };
        visit(&mut search);
        search.found
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_type_path(&mut self, path: &'ast TypePath) {
        let (name, arguments) = outermost(path);
        let argument = |index: usize| arguments.get(index).map(|path| outermost(path).0);
        let problem = match name.as_str() {
            "Result" if argument(1).is_some_and(|error| error == "String") => Some(Problem::TextAsError),
            "Result" if argument(0).is_some_and(|value| value == "Result") => Some(Problem::NestedResult),
            "Option" if argument(0).is_some_and(|value| value == "Option") => Some(Problem::NestedOption),
            name if self.aliases.iter().any(|alias| alias == name) && arguments.len() < 2 => Some(Problem::TextAsError),
            _ => None,
        };
        self.found = self.found.or(problem);
        visit::visit_type_path(self, path);
    }
}

/// The last name of a type's path, and its arguments; arguments that are no path do not matter, but keep their place.
fn outermost(path: &TypePath) -> (String, Vec<TypePath>) {
    let Some(last) = path.path.segments.last() else {
        return (String::new(), Vec::new());
    };
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().filter_map(of_argument).collect(),
        _ => Vec::new(),
    };
    (last.ident.to_string(), arguments)
}

fn of_argument(argument: &GenericArgument) -> Option<TypePath> {
    match argument {
        GenericArgument::Type(Type::Path(path)) => Some(path.clone()),
        GenericArgument::Type(_) => Some(syn::parse_quote!(_Other)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::*;

    fn findings(text: &str) -> Vec<Finding> {
        let read = |path: &Path| (path == Path::new("src/lib.rs")).then(|| text.to_owned());
        let of = Crate::read("zoo", Path::new("src/lib.rs"), &read).unwrap();
        check(&[of], &read)
    }

    #[rstest]
    #[case::a_function(
        "\npub fn feed() -> Result<(), String> { f() }",
        "src/lib.rs:2: the signature of fn feed contains Result<_, String>"
    )]
    #[case::a_method(
        "impl Ape { pub async fn feed(&self) -> std::result::Result<u8, std::string::String> {} }",
        "Result<_, String>"
    )]
    #[case::a_trait(
        "pub trait Keeper { fn feed(&self) -> Option<Option<u8>>; }",
        "an Option of an Option"
    )]
    #[case::a_layer("pub fn feed() -> Vec<Result<Result<u8, E>, F>> { f() }", "a Result of a Result")]
    #[case::an_argument("pub fn feed(by: impl Fn() -> Result<u8, String>) {}", "Result<_, String>")]
    #[case::an_alias(
        "type Result<T> = std::result::Result<T, String>; pub fn feed() -> Result<()> { f() }",
        "fn feed"
    )]
    #[case::a_public_alias("pub type Fed = Result<u8, String>;", "type Fed")]
    fn an_opaque_signature_is_found(#[case] text: &str, #[case] said: &str) {
        let findings = findings(text);
        assert!(findings.len() == 1 && findings[0].contains(said), "{findings:#?}");
    }

    #[rstest]
    #[case::a_typed_error("pub fn feed() -> Result<String, FeedError> { f() }")]
    #[case::a_private_one("fn feed() -> Result<(), String> { f() }")]
    #[case::one_of_the_crate("pub(crate) fn feed() -> Result<(), String> { f() }")]
    #[case::what_another_trait_asks_for("impl Keeper for Ape { fn feed(&self) -> Result<u8, String> { f() } }")]
    #[case::in_tests("#[cfg(test)] mod tests { pub fn feed() -> Result<u8, String> { f() } }")]
    fn other_signatures_are_fine(#[case] text: &str) {
        assert_eq!(findings(text), Vec::<Finding>::new());
    }
}
