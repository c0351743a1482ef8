//! Joins the modules to one script: a module in a file that is opened from a disk cannot import others.

/// A module of the page.
pub(crate) struct Module {
    /// The name of its file.
    pub(crate) name: &'static str,
    /// Its text.
    pub(crate) text: &'static str,
}

/// Declares modules.
macro_rules! modules {
    ($(#[$about:meta])* $list:ident: $($name:literal,)*) => {
        $(#[$about])*
        pub(crate) const $list: &[Module] = &[
            $(Module { name: $name, text: include_str!(concat!("../assets/", $name)) },)*
        ];
    };
}

modules! {
    /// All modules of the report, each after those that it imports.
    MODULES:
    "text.js",
    "dom.js",
    "record.js",
    "objects.js",
    "diff.js",
    "scale.js",
    "query.js",
    "state.js",
    "palette.js",
    "layout.js",
    "draw.js",
    "activity.js",
    "overview.js",
    "chart.js",
    "lanes.js",
    "list.js",
    "logs.js",
    "detail.js",
    "checks.js",
    "head.js",
    "print.js",
    "keys.js",
    "tools.js",
    "main.js",
}

modules! {
    /// The modules that only the dashboard has. It also uses those of the report.
    LIVE_MODULES:
    "model.js",
    "topology.js",
    "timeline.js",
    "chaos.js",
    "play.js",
    "entity.js",
    "live.js",
}

/// All modules as one script.
pub(crate) fn joined() -> String {
    let mut script = String::from("\"use strict\";\n");
    for module in MODULES {
        script.extend(["// ", module.name, "\n"]);
        script += &without_imports(module.text);
    }
    script
}

/// A module without its imports, and without the word `export`.
fn without_imports(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("import "));
    lines.fold(String::new(), |text, line| {
        text + line.strip_prefix("export ").unwrap_or(line) + "\n"
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use regex::Regex;

    use super::*;

    /// The modules that a module imports.
    fn imports(module: &Module) -> Vec<&'static str> {
        let lines = module.text.lines().filter(|line| line.starts_with("import "));
        let name = |line: &'static str| {
            let (_, path) = line
                .split_once(" from \"./")
                .unwrap_or_else(|| panic!("{}: {line}", module.name));
            path.trim_end_matches("\";")
        };
        lines.map(name).collect()
    }

    #[test]
    fn every_module_is_reached_from_a_main_one() {
        let all = MODULES.iter().chain(LIVE_MODULES);
        let by_name: BTreeMap<&str, &Module> = all.map(|module| (module.name, module)).collect();
        let mut reached = BTreeSet::new();
        let mut open = vec!["main.js", "live.js"];
        while let Some(name) = open.pop() {
            if reached.insert(name) {
                open.extend(imports(by_name[name]));
            }
        }
        let all: BTreeSet<&str> = by_name.into_keys().collect();
        assert_eq!(reached, all);
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
        let scripts = files.filter_map(|name| Some(name.to_str()?.to_owned()).filter(|name| name.ends_with(".js")));
        assert_eq!(
            scripts.collect::<BTreeSet<_>>(),
            all.into_iter().map(str::to_owned).collect()
        );
    }

    #[test]
    fn every_module_comes_after_those_that_it_imports() {
        let mut before = BTreeSet::new();
        for module in MODULES.iter().chain(LIVE_MODULES) {
            for import in imports(module) {
                assert!(before.contains(import), "{} imports {import}", module.name);
            }
            before.insert(module.name);
        }
    }

    /// The modules share one scope when they are joined.
    #[test]
    fn names_at_the_top_of_modules_are_unique() {
        let name = Regex::new(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)").unwrap();
        let mut seen = BTreeMap::new();
        for module in MODULES {
            for line in module.text.lines() {
                let Some(found) = name.captures(line) else { continue };
                let first = seen.insert(found[1].to_owned(), module.name);
                assert_eq!(first, None, "{} and another module define {}", module.name, &found[1]);
            }
        }
        assert!(seen.len() > 50, "{seen:?}");
    }

    #[test]
    fn every_imported_name_is_exported() {
        let import = Regex::new(r"^import \{ (.*) \} from ").unwrap();
        for module in MODULES.iter().chain(LIVE_MODULES) {
            for line in module.text.lines().filter(|line| line.starts_with("import ")) {
                let from = MODULES
                    .iter()
                    .chain(LIVE_MODULES)
                    .find(|other| line.contains(&format!("\"./{}\"", other.name)))
                    .unwrap();
                let names = import.captures(line).unwrap_or_else(|| panic!("{line}"))[1].to_owned();
                for name in names.split(", ") {
                    let export =
                        Regex::new(&format!(r"(?m)^export (async )?(function|const|let|class) {name}\b")).unwrap();
                    assert!(export.is_match(from.text), "{} does not export {name}", from.name);
                }
            }
        }
    }

    #[test]
    fn no_module_has_more_than_300_lines() {
        for module in MODULES.iter().chain(LIVE_MODULES) {
            assert!(module.text.lines().count() <= 300, "{}", module.name);
        }
    }
}
