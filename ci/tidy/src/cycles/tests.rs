use std::collections::BTreeMap;
use std::path::Path;

use rstest::rstest;

use super::*;

type Files<'a> = &'a [(&'a str, &'a str)];

fn findings(files: Files<'_>, exceptions: &[Exception]) -> Vec<Finding> {
    let files: BTreeMap<&Path, &str> = files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
    let read = |path: &Path| files.get(path).map(|text| (*text).to_owned());
    let of = Crate::read("zoo", Path::new("src/lib.rs"), &read).unwrap();
    check(&[of], exceptions, &read)
}

#[rstest]
#[case::of_two(
    &[
        ("src/lib.rs", "mod ape; mod bee;"),
        ("src/ape.rs", "// Bee\nuse crate::bee::Bee;\npub struct Ape(Bee);"),
        ("src/bee.rs", "pub struct Bee;\nfn f() -> super::ape::Ape { g() }"),
    ],
    "the modules of zoo form a cycle: ape -> bee -> ape; move what both need below them\n    \
     ape -> bee: src/ape.rs:2 names crate::bee::Bee\n    \
     bee -> ape: src/bee.rs:2 names super::ape::Ape"
)]
#[case::of_three(
    &[
        ("src/lib.rs", "mod ape; mod bee; mod cat;"),
        ("src/ape.rs", "use crate::{bee::{Bee as Insect}};"),
        ("src/bee/mod.rs", "pub struct Bee; mod hive;"),
        ("src/bee/hive.rs", "use crate::cat;\nfn f() { cat::meow() }"),
        ("src/cat.rs", "pub fn meow() { assert!(matches!(x, [crate::ape::f()])) }"),
    ],
    "ape -> bee -> cat -> ape"
)]
#[case::through_a_re_export(
    &[
        ("src/lib.rs", "mod ape; mod bee; pub(crate) use ape::Ape;"),
        ("src/ape.rs", "pub use inner::Ape; mod inner { pub struct Ape; } use super::bee::f;"),
        ("src/bee.rs", "pub fn f(ape: crate::Ape) {}"),
    ],
    "bee -> ape: src/bee.rs:1 names crate::Ape"
)]
#[case::through_all_names_of_a_module(
    &[
        ("src/lib.rs", "mod ape; mod bee; use ape::*;"),
        ("src/ape.rs", "pub struct Ape; use super::bee::f;"),
        ("src/bee.rs", "use super::*; pub fn f(ape: Ape) {}"),
    ],
    "bee -> ape: src/bee.rs:1 names Ape"
)]
#[case::through_an_attribute(
    &[
        ("src/lib.rs", "mod ape; mod bee;"),
        ("src/ape.rs", "use super::bee::f;"),
        ("src/bee.rs", "pub fn f() {}\nstruct Bee {\n#[serde(with = \"crate::ape\")]\nlegs: u8 }"),
    ],
    "bee -> ape: src/bee.rs:3 names crate::ape"
)]
#[case::nested(
    &[
        ("src/lib.rs", "mod zoo;"),
        ("src/zoo.rs", "mod ape; #[path = \"insects/bee.rs\"] mod bee;"),
        ("src/zoo/ape.rs", "use super::bee;"),
        ("src/insects/bee.rs", "mod hive;"),
        ("src/insects/hive.rs", "impl crate::zoo::ape::Ape for () {}"),
    ],
    "the modules of zoo::zoo form a cycle: ape -> bee -> ape"
)]
fn a_cycle_is_found(#[case] files: Files<'_>, #[case] expected: &str) {
    let findings = findings(files, &[]);
    assert!(findings.len() == 1 && findings[0].contains(expected), "{findings:#?}");
}

#[rstest]
#[case::a_child_uses_its_parent(&[
    ("src/lib.rs", "mod ape; use ape::Ape; pub struct Zoo(Ape);"),
    ("src/ape.rs", "use crate::Zoo; pub struct Ape; fn f(zoo: super::Zoo) {}"),
])]
#[case::one_direction(&[
    ("src/lib.rs", "mod ape; mod bee; mod cat; pub use ape::Ape;"),
    ("src/ape.rs", "use crate::bee::Bee; use super::cat::Cat; pub struct Ape;"),
    ("src/bee.rs", "use super::cat::Cat; use ape::Ape; fn f() { ape.bee.cat() }"),
    ("src/cat.rs", "pub struct Cat; // crate::ape::Ape\n fn f() -> &'static str { \"crate::ape::Ape\" }"),
])]
#[case::in_tests(&[
    ("src/lib.rs", "mod ape; mod bee; #[cfg(all(test, unix))] mod cat;"),
    ("src/ape.rs", "use crate::bee::Bee;"),
    ("src/bee.rs", "#[cfg(test)] use crate::ape::Ape; #[cfg(test)] mod tests { use crate::ape::Ape; } mod more_tests;"),
])]
#[case::a_function_with_the_name_of_its_module(&[
    ("src/lib.rs", "mod ape; mod bee; pub use ape::ape;"),
    ("src/ape.rs", "pub fn ape() {}"),
    ("src/bee.rs", "use crate::ape; fn f() { ape(); <super::ape::Ape>::bee() }"),
])]
fn other_uses_are_no_cycle(#[case] files: Files<'_>) {
    assert_eq!(findings(files, &[]), Vec::<Finding>::new());
}

const CYCLE: Files<'_> = &[
    ("src/lib.rs", "mod ape;"),
    ("src/ape/mod.rs", "mod ear; mod eye;"),
    ("src/ape/ear.rs", "use super::eye;"),
    ("src/ape/eye.rs", "use super::ear;"),
];

const fn exception(within: &'static str) -> Exception {
    let reason = "for the test";
    Exception { within, reason }
}

#[rstest]
#[case::of_the_module("zoo::ape")]
#[case::of_the_crate("zoo")]
fn an_exception_allows_the_cycles_within_a_module(#[case] within: &'static str) {
    assert_eq!(findings(CYCLE, &[exception(within)]), Vec::<Finding>::new());
}

#[test]
fn an_unused_exception_is_a_finding() {
    let findings = findings(CYCLE, &[exception("zoo"), exception("zoo::ap")]);
    assert_eq!(
        findings,
        ["no modules within zoo::ap form a cycle: remove the exception in ci/tidy/src/cycles.rs"]
    );
}
