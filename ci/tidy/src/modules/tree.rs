//! Finds the modules of a crate: `mod` items, the files they name, and `#[path]`.

use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta, Token};

use super::{Module, ReadError, ReadFile};

/// Reads all modules, starting at the root file.
pub(super) fn read(name: &str, root: &Path, read: ReadFile<'_>) -> Result<Vec<Module>, ReadError> {
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = Reader {
        read,
        modules: Vec::new(),
    };
    let items = reader.parse(root)?;
    let place = Place {
        file: root.to_owned(),
        attribute_folder: folder.clone(),
        folder,
    };
    reader.add(name, None, items, &place)?;
    Ok(reader.modules)
}

struct Reader<'a> {
    read: ReadFile<'a>,
    modules: Vec<Module>,
}

/// The location of a module.
struct Place {
    file: PathBuf,
    /// The folder in which `mod x;` looks for its file.
    folder: PathBuf,
    /// The folder to which `#[path]` is relative.
    attribute_folder: PathBuf,
}

impl Reader<'_> {
    fn parse(&self, file: &Path) -> Result<Vec<Item>, ReadError> {
        let text = (self.read)(file).ok_or_else(|| ReadError::Missing(file.to_owned()))?;
        let parsed = syn::parse_file(&text).map_err(|error| ReadError::Syntax {
            file: file.to_owned(),
            error,
        })?;
        Ok(parsed.items)
    }

    fn add(&mut self, name: &str, parent: Option<usize>, items: Vec<Item>, place: &Place) -> Result<(), ReadError> {
        let index = self.modules.len();
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name.to_owned(), index);
        }
        self.modules.push(Module {
            name: name.to_owned(),
            parent,
            children: Default::default(),
            file: place.file.clone(),
            items: Vec::new(),
            names: Default::default(),
            imports: Vec::new(),
            references: Vec::new(),
        });
        for item in items {
            match item {
                item if attributes(&item).iter().any(is_for_tests) => {}
                Item::Mod(child) => self.add_child(index, child, place)?,
                item => self.modules[index].items.push(item),
            }
        }
        Ok(())
    }

    fn add_child(&mut self, parent: usize, child: ItemMod, place: &Place) -> Result<(), ReadError> {
        let name = child.ident.to_string();
        let path = child.attrs.iter().find_map(path_attribute);
        if let Some((_, items)) = child.content {
            let folder = place.folder.join(path.as_deref().unwrap_or(&name));
            let place = Place {
                file: place.file.clone(),
                attribute_folder: folder.clone(),
                folder,
            };
            return self.add(&name, Some(parent), items, &place);
        }
        let named = place.folder.join(format!("{name}.rs"));
        let (file, folder) = match path {
            Some(path) => {
                let file = place.attribute_folder.join(path);
                let folder = file.parent().unwrap_or(Path::new("")).to_owned();
                (file, folder)
            }
            None if (self.read)(&named).is_some() => (named.clone(), place.folder.join(&name)),
            None => (place.folder.join(&name).join("mod.rs"), place.folder.join(&name)),
        };
        if is_test_file(&named) || is_test_file(&file) {
            return Ok(());
        }
        let items = self.parse(&file)?;
        let attribute_folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let place = Place {
            file,
            folder,
            attribute_folder,
        };
        self.add(&name, Some(parent), items, &place)
    }
}

fn is_test_file(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem.ends_with("tests") || file.iter().any(|part| part == "tests")
}

/// The value of `#[path = "…"]`.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    match &meta.value {
        Expr::Lit(value) if meta.path.is_ident("path") => match &value.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the attribute restricts its item to tests.
pub(super) fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<Meta>().is_ok_and(|meta| needs_test(&meta))
}

/// Whether a `cfg` condition holds only in tests.
fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let Ok(parts) = parts else { return false };
    if list.path.is_ident("all") {
        parts.iter().any(needs_test)
    } else {
        list.path.is_ident("any") && parts.iter().all(needs_test)
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
