//! Collects what the code of a module defines, imports and names.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemUse, Macro, Path, UseTree};

use super::tree::is_for_tests;
use super::{Import, Module, Reference};

/// Sets the definitions, imports and references of the module.
pub(super) fn collect(module: &mut Module) {
    let mut collector = Collector::default();
    for item in &module.items {
        match item {
            Item::Use(item) => module.imports.extend(imports(item)),
            item => module.names.extend(name(item)),
        }
        collector.visit_item(item);
    }
    collector.references.sort();
    collector.references.dedup();
    module.references = collector.references;
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The names that a `use` item imports; none for paths of other crates (`::name`).
fn imports(item: &ItemUse) -> Vec<Import> {
    let mut imports = Vec::new();
    if item.leading_colon.is_none() {
        flatten(&item.tree, &mut Vec::new(), &mut imports);
    }
    imports
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, imports: &mut Vec<Import>) {
    let leaf = |name: Option<String>, last: Option<String>, prefix: &[String]| {
        let path: Vec<String> = prefix.iter().cloned().chain(last).collect();
        Import { name, path }
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, imports);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, prefix, imports)),
        UseTree::Glob(_) => imports.push(leaf(None, None, prefix)),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let (name, last) = match name.as_str() {
                "self" => (prefix.last().cloned(), None),
                _ => (Some(name.clone()), Some(name)),
            };
            imports.push(leaf(name, last, prefix));
        }
        UseTree::Rename(rename) => {
            let last = Some(rename.ident.to_string()).filter(|last| last != "self");
            imports.push(leaf(Some(rename.rename.to_string()), last, prefix));
        }
    }
}

#[derive(Default)]
struct Collector {
    references: Vec<Reference>,
}

impl Collector {
    fn add(&mut self, path: Vec<String>) {
        if !path.is_empty() {
            let is_import = false;
            self.references.push(Reference { path, is_import });
        }
    }

    fn add_path(&mut self, path: &Path) {
        // `::name` belongs to another crate, and the path after `<Type>::` also starts like this.
        if path.leading_colon.is_none() {
            self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
    }

    /// All paths in the tokens of a macro call or attribute. Of a macro definition, only paths that mean the same at
    /// every use of the macro.
    fn scan(&mut self, tokens: &TokenStream, is_definition: bool) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut is_member) = (0, false);
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 || path.is_empty() {
                        self.end(&mut path, is_definition);
                    }
                    if !is_member {
                        path.push(ident.to_string());
                    }
                    (colons, is_member) = (0, false);
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    // After a `::` that does not continue a path, the name belongs to another crate or to a type.
                    is_member = colons == 2 && path.is_empty();
                    continue;
                }
                TokenTree::Punct(punct) => is_member = punct.as_char() == '.',
                TokenTree::Group(group) => self.scan(&group.stream(), is_definition),
                TokenTree::Literal(literal) => self.scan_text(&literal.to_string()),
            }
            self.end(&mut path, is_definition);
            colons = 0;
        }
        self.end(&mut path, is_definition);
    }

    fn end(&mut self, path: &mut Vec<String>, is_definition: bool) {
        let path = std::mem::take(path);
        if !is_definition || path.first().is_some_and(|first| first == "crate") {
            self.add(path);
        }
    }

    /// Attributes name functions and modules in strings; as in imports, the path may end at a module:
    /// `#[serde(with = "crate::time")]`.
    fn scan_text(&mut self, literal: &str) {
        let Ok(text) = syn::parse_str::<syn::LitStr>(literal) else {
            return;
        };
        if text.value().contains("::")
            && let Ok(path) = text.parse::<Path>()
        {
            let path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let is_import = true;
            self.references.push(Reference { path, is_import });
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let imports = imports(item).into_iter().map(|import| Reference {
            path: import.path,
            is_import: true,
        });
        self.references.extend(imports);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        self.add_path(path);
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.add_path(&call.path);
        self.scan(&call.tokens, call.path.is_ident("macro_rules"));
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.scan(tokens, false);
    }
}

/// The line that most likely contains a reference: on stable, tokens have no position.
pub(super) fn line(text: &str, reference: &Reference) -> Option<usize> {
    let whole = reference.to_string();
    let last = reference.path.last()?;
    let code = || {
        text.lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .enumerate()
    };
    let mut is_use = false;
    let in_use = code().filter(|(_, line)| {
        let line = line.trim_start();
        is_use |= line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ");
        let here = is_use;
        is_use &= !line.contains(';');
        here
    });
    let find = |(_, line): &(usize, &str), word: &str| has_word(line, word);
    let found = code()
        .find(|line| reference.path.len() > 1 && find(line, &whole))
        .or_else(|| in_use.filter(|_| reference.is_import).find(|line| find(line, last)))
        .or_else(|| code().find(|line| find(line, last)));
    found.map(|(index, _)| index + 1)
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    line.match_indices(word)
        .any(|(at, _)| !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next()))
}
