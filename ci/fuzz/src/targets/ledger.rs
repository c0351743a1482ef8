//! The files of fakecloud's ledger. The first line is `sealed` or `raw`; then follow the lines of `ledger.json`, an empty line,
//! and those of `changes.log`. The lines of a sealed input have no checksums: they get valid ones, so that what is behind the checksums is
//! reached.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use clock::{Clock, Seed};
use fakecloud::inspect::{self, Checked};
use fakecloud::{Config, Fakecloud, Writer};
use jiff::Timestamp;
use mcm_driver::Driver as _;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::grpc::machine;
use super::world::virtual_time;
use crate::mutate::split;
use crate::target::Runner;
use crate::{Outcome, Violation};

const FILES: [&str; 2] = ["ledger.json", "changes.log"];

pub(super) fn start() -> Result<Runner, Violation> {
    let runtime = virtual_time()?;
    Ok(Box::new(move |input| {
        let folder = folder().map_err(failed("a folder"))?;
        let (kind, text) = split(input, b"\n");
        let (ledger, changes) = split(text, b"\n\n");
        for (name, lines) in FILES.iter().zip([ledger, changes]) {
            let content = if kind == b"raw" { lines.to_vec() } else { sealed(lines) };
            fs::write(folder.path().join(name), content).map_err(failed("a file"))?;
        }
        run(&runtime, folder.path())
    }))
}

fn run(runtime: &Runtime, folder: &Path) -> Result<Outcome, Violation> {
    let before = contents(folder)?;
    let checked = inspect::check(folder);
    unchanged(folder, &before, "a check")?;
    let opened = open(runtime, folder);
    let (cloud, writer) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            unchanged(folder, &before, "a refusal")?;
            if matches!(checked, Ok(Checked::Sound { .. })) {
                return Err(Violation::new(format!("a sound ledger is refused: {error}")));
            }
            return repair(runtime, folder);
        }
    };
    if !matches!(checked, Ok(Checked::Sound { .. })) {
        return Err(Violation::new(format!(
            "the cloud starts with a ledger that is not sound: {checked:?}"
        )));
    }
    use_cloud(runtime, &cloud, writer)?;
    drop(cloud);
    open(runtime, folder).map_err(|error| Violation::new(format!("the ledger cannot be opened again: {error}")))?;
    Ok(Outcome::Accepted)
}

/// What a repair writes can be opened.
fn repair(runtime: &Runtime, folder: &Path) -> Result<Outcome, Violation> {
    let copy = self::folder().map_err(failed("a folder"))?;
    let to = copy.path().join("repaired");
    if let Ok(Some(_)) = inspect::repair(folder, Some(&to)) {
        let (cloud, writer) = open(runtime, &to)
            .map_err(|error| Violation::new(format!("a repaired ledger cannot be opened: {error}")))?;
        use_cloud(runtime, &cloud, writer)?;
    }
    Ok(Outcome::Refused)
}

fn open(runtime: &Runtime, folder: &Path) -> Result<(Fakecloud, Writer), fakecloud::OpenError> {
    let _inside = runtime.enter();
    // After the times in the files.
    let now = Timestamp::from_second(1_800_000_000).unwrap_or_default();
    Fakecloud::open(Config::default(), Clock::simulated(now), Seed::new(1), folder)
}

/// Creates and deletes VMs in the cloud, and writes everything.
fn use_cloud(runtime: &Runtime, cloud: &Fakecloud, writer: Writer) -> Result<(), Violation> {
    let token = CancellationToken::new();
    runtime.block_on(async {
        let work = async {
            let driver = cloud.driver();
            for name in ["m-1", "m-2", "m-9"] {
                driver.create_machine(machine(name)).await.ok();
            }
            driver.delete_machine(machine("m-1")).await.ok();
            cloud.step(|cloud, now| cloud.advance(now));
            token.cancel();
        };
        let ((), written) = tokio::join!(work, writer.run(token.clone()));
        written.map_err(|error| Violation::new(format!("the ledger cannot be written: {error}")))
    })
}

/// The ledger of a short life.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    life().unwrap_or_default()
}

fn life() -> Result<Vec<Vec<u8>>, Violation> {
    let folder = folder().map_err(failed("a folder"))?;
    let runtime = virtual_time()?;
    for _ in 0..2 {
        let (cloud, writer) = open(&runtime, folder.path()).map_err(|error| Violation::new(error.to_string()))?;
        use_cloud(&runtime, &cloud, writer)?;
    }
    let files = contents(folder.path())?;
    let [ledger, changes] = FILES.map(|name| files.get(name).cloned().unwrap_or_default());
    let raw = [b"raw\n".as_slice(), &ledger, b"\n", &changes].concat();
    let plain = [b"sealed\n".as_slice(), &unsealed(&ledger), b"\n", &unsealed(&changes)].concat();
    Ok(vec![plain, raw])
}

/// Each line after its checksum.
fn sealed(lines: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let digest = Sha256::digest(line);
        sealed.extend(
            digest
                .iter()
                .take(8)
                .flat_map(|byte| format!("{byte:02x}").into_bytes()),
        );
        sealed.push(b' ');
        sealed.extend_from_slice(line);
        sealed.push(b'\n');
    }
    sealed
}

fn unsealed(file: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        plain.extend_from_slice(split(line, b" ").1);
    }
    plain
}

fn folder() -> io::Result<TempDir> {
    // Each input is synced several times: memory is faster.
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        TempDir::new_in(memory)
    } else {
        TempDir::new()
    }
}

/// The files by name.
fn contents(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, Violation> {
    let mut files = BTreeMap::new();
    for name in FILES {
        if let Ok(content) = fs::read(folder.join(name)) {
            files.insert(name.to_owned(), content);
        }
    }
    Ok(files)
}

fn unchanged(folder: &Path, before: &BTreeMap<String, Vec<u8>>, what: &str) -> Result<(), Violation> {
    if contents(folder)? == *before {
        Ok(())
    } else {
        Err(Violation::new(format!("{what} changes the files")))
    }
}

fn failed(what: &str) -> impl Fn(io::Error) -> Violation {
    move |error| Violation::new(format!("{what} cannot be written: {error}"))
}
