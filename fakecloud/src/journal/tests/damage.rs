//! Damage of each byte, of each length, and of whole files.

use clock::Stream;
use durable::lines::{lines, write_line};

use super::*;
use crate::journal::format::{self, CHANGES, LEDGER, NEXT_CHANGES};
use crate::journal::load::load;
use crate::journal::reader::{Contents, LogFile};
use crate::journal::salvage::salvage;

/// The files of a small ledger, and its states: that of `ledger.json`, and those after each frame of `changes.log`.
pub(super) struct Sample {
    pub(super) contents: Contents,
    pub(super) states: Vec<Snapshot>,
    frame: u64,
}

/// A ledger of generation 2 with a VM, a volume and settings in `ledger.json`, and another VM in `changes.log`.
pub(super) async fn sample() -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let base = life(folder.path(), async |cloud| {
        cloud.driver().create_machine(request("a")).await.unwrap();
        cloud.step(|cloud, now| cloud.create_volume("v", "local-1", "1Gi", now).map(drop).unwrap());
        cloud.settled().await.unwrap();
        let base = load(&Contents::read(folder.path()).unwrap()).unwrap().unwrap();
        cloud.driver().create_machine(request("b")).await.unwrap();
        cloud.settled().await.unwrap();
        cloud.driver().delete_machine(request("a")).await.unwrap();
        cloud.settled().await.unwrap();
        cloud.step(|cloud, now| cloud.hold("b", now).map(drop)).unwrap();
        base
    })
    .await;
    let written = std::fs::read(folder.path().join(CHANGES)).unwrap();
    let (ledger, mut changes) = format::generation(base.state.clone(), 2, base.frame).unwrap();
    let mut states = vec![base.state];
    for line in lines(&written).skip(1) {
        let frame: Frame = line.decode().unwrap();
        if frame.number > base.frame {
            write_line(&mut changes, &frame).unwrap();
            let mut next = states.last().unwrap().clone();
            frame.apply_to(&mut next);
            states.push(next);
        }
    }
    assert!(states.len() >= 4, "{}", states.len());
    Sample {
        contents: Contents {
            ledger: Some(ledger),
            changes: Some(changes),
            next_changes: None,
            audit: false,
        },
        states,
        frame: base.frame,
    }
}

impl Sample {
    fn ledger(&self) -> &[u8] {
        self.contents.ledger.as_deref().unwrap()
    }

    fn changes(&self) -> &[u8] {
        self.contents.changes.as_deref().unwrap()
    }

    fn with_ledger(&self, ledger: Vec<u8>) -> Contents {
        Contents {
            ledger: Some(ledger),
            ..self.contents.clone()
        }
    }

    fn with_changes(&self, changes: Vec<u8>) -> Contents {
        Contents {
            changes: Some(changes),
            ..self.contents.clone()
        }
    }

    /// The same ledger in the format of the previous version.
    pub(super) fn earlier(&self) -> Contents {
        let mut ledger = format!("{}\n", self.frame).into_bytes();
        serde_json::to_writer(&mut ledger, &self.states[0]).unwrap();
        ledger.push(b'\n');
        let header = lines(self.changes()).nth(1).unwrap().offset;
        Contents {
            ledger: Some(ledger),
            changes: Some(self.changes()[header..].to_vec()),
            ..Contents::default()
        }
    }
}

#[tokio::test]
async fn sound_files_are_read_completely() {
    let sample = sample().await;
    let loaded = load(&sample.contents).unwrap().unwrap();
    assert_eq!(loaded.state, *sample.states.last().unwrap());
    assert_eq!(loaded.frame, sample.frame + sample.states.len() as u64 - 1);
    let salvage = salvage(&sample.contents).unwrap();
    assert_eq!((salvage.state, salvage.losses), (loaded.state, Vec::new()));
}

/// Flips one bit of each byte, and all bits of line ends and of the bytes around them.
pub(super) fn flips(text: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let near = |at: usize| text[at.saturating_sub(1)..text.len().min(at + 2)].contains(&b'\n');
    (0..text.len() * 8)
        .filter(move |index| near(index / 8) || index % 8 == (index / 8) % 8)
        .map(|index| {
            let mut flipped = text.to_vec();
            flipped[index / 8] ^= 1 << (index % 8);
            (index / 8, flipped)
        })
}

#[tokio::test]
async fn each_flipped_bit_is_an_error_that_names_file_and_line() {
    let sample = sample().await;
    let check = |file: &str, at: usize, text: &[u8], contents: &Contents| {
        let damage = load(contents).unwrap_err();
        let line = lines(text).filter(|line| line.offset <= at).last().unwrap();
        // A damaged line end joins two lines.
        assert_eq!((damage.file, damage.offset), (file, line.offset), "byte {at}: {damage}");
        salvage(contents).unwrap()
    };
    for (at, flipped) in flips(sample.ledger()) {
        let kept = check(LEDGER, at, sample.ledger(), &sample.with_ledger(flipped));
        let in_header = at < lines(sample.ledger()).nth(1).unwrap().offset;
        assert!(in_header || !kept.losses.is_empty(), "byte {at}");
    }
    for (at, flipped) in flips(sample.changes()) {
        let kept = check(CHANGES, at, sample.changes(), &sample.with_changes(flipped));
        assert!(sample.states.contains(&kept.state), "byte {at}");
        let complete = kept.state == *sample.states.last().unwrap();
        assert!(complete || !kept.losses.is_empty(), "byte {at}");
    }
}

#[tokio::test]
async fn each_shorter_log_is_a_prefix_of_the_steps() {
    let sample = sample().await;
    let header = lines(sample.changes()).nth(1).unwrap().offset;
    for length in 0..sample.changes().len() {
        let contents = sample.with_changes(sample.changes()[..length].to_vec());
        if length < header {
            let damage = load(&contents).unwrap_err();
            assert_eq!((damage.file, damage.offset), (CHANGES, 0), "{length}: {damage}");
            continue;
        }
        let complete = contents.changes.as_ref().unwrap().split(|byte| *byte == b'\n').count() - 2;
        let loaded = load(&contents).unwrap().unwrap();
        assert_eq!(loaded.state, sample.states[complete], "{length}");
        let LogFile::Current(extent) = loaded.log else {
            panic!("{:?}", loaded.log);
        };
        assert_eq!(extent.valid + extent.torn, length);
        assert!(extent.torn == 0 || sample.changes()[extent.valid - 1] == b'\n');
    }
}

#[tokio::test]
async fn each_shorter_ledger_is_an_error_with_its_place() {
    let sample = sample().await;
    for length in 0..sample.ledger().len() {
        let damage = load(&sample.with_ledger(sample.ledger()[..length].to_vec())).unwrap_err();
        assert_eq!(damage.file, LEDGER, "{length}: {damage}");
        assert!(damage.offset <= length, "{length}: {damage}");
    }
}

/// The lines of a file in another order.
fn rearranged(text: &[u8], order: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    let mut lines = text
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    order(&mut lines);
    lines.concat()
}

#[tokio::test]
async fn missing_foreign_old_and_rearranged_files_are_errors() {
    let (sample, other) = (sample().await, sample().await);
    let generation = |generation| format::generation(sample.states[0].clone(), generation, sample.frame).unwrap();
    let newer = format::generation(sample.states[1].clone(), 3, sample.frame + 1).unwrap();
    let drop_second = |lines: &mut Vec<Vec<u8>>| drop(lines.remove(1));
    let repeat_last = |lines: &mut Vec<Vec<u8>>| lines.push(lines.last().unwrap().clone());
    let without = |ledger: bool| Contents {
        ledger: sample.contents.ledger.clone().filter(|_| !ledger),
        changes: sample.contents.changes.clone().filter(|_| ledger),
        ..Contents::default()
    };
    let only_audit = Contents {
        audit: true,
        ..Contents::default()
    };
    let cases = [
        (only_audit, LEDGER, "the file is missing"),
        (without(true), LEDGER, "the file is missing"),
        (without(false), CHANGES, "the file is missing"),
        (
            sample.with_changes(other.changes().to_vec()),
            CHANGES,
            "belongs to the ledger",
        ),
        (
            sample.with_changes(generation(1).1),
            CHANGES,
            "has generation 1, and ledger.json has 2",
        ),
        (
            sample.with_ledger(generation(1).0),
            CHANGES,
            "has generation 2, and ledger.json has 1",
        ),
        (
            sample.with_ledger(newer.0),
            CHANGES,
            "has generation 2, and ledger.json has 3",
        ),
        (
            sample.with_changes(sample.ledger().to_vec()),
            CHANGES,
            "the content of another file",
        ),
        (
            sample.with_ledger(sample.changes().to_vec()),
            LEDGER,
            "the content of another file",
        ),
        (
            sample.with_changes(sample.earlier().changes.unwrap()),
            CHANGES,
            "the content is not valid",
        ),
        (
            sample.with_changes(rearranged(sample.changes(), drop_second)),
            CHANGES,
            "belongs here",
        ),
        (
            sample.with_changes(rearranged(sample.changes(), repeat_last)),
            CHANGES,
            "belongs here",
        ),
        (
            sample.with_ledger(rearranged(sample.ledger(), drop_second)),
            LEDGER,
            "its header says",
        ),
        (
            sample.with_ledger(rearranged(sample.ledger(), repeat_last)),
            LEDGER,
            "its header says",
        ),
    ];
    for (contents, file, expected) in cases {
        let damage = load(&contents).unwrap_err();
        let text = damage.to_string();
        assert!(damage.file == file && text.contains(expected), "{text}, not {expected}");
    }
    assert!(load(&Contents::default()).unwrap().is_none());
}

#[tokio::test]
async fn a_process_may_end_at_any_time_while_it_writes_the_next_generation() {
    let sample = sample().await;
    let state = sample.states.last().unwrap();
    let frame = sample.frame + sample.states.len() as u64 - 1;
    let (ledger, changes) = format::generation(state.clone(), 3, frame).unwrap();
    for length in 0..=changes.len() {
        let next_changes = Some(changes[..length].to_vec());
        let before = Contents {
            next_changes,
            ..sample.contents.clone()
        };
        let loaded = load(&before).unwrap().unwrap();
        assert_eq!((&loaded.state, loaded.generation), (state, 2), "{length}");
    }
    let between = Contents {
        next_changes: Some(changes),
        ..sample.with_ledger(ledger)
    };
    let loaded = load(&between).unwrap().unwrap();
    assert_eq!((&loaded.state, loaded.generation), (state, 3));
    assert!(matches!(loaded.log, LogFile::Next(_)));
    let lost = Contents {
        next_changes: None,
        ..between
    };
    assert!(load(&lost).unwrap_err().to_string().contains("has generation 2"));
}

#[tokio::test]
async fn an_unfinished_generation_is_finished_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), async |cloud| {
        cloud.driver().create_machine(request("a")).await.unwrap();
    })
    .await;
    let path = |name| folder.path().join(name);
    std::fs::rename(path(CHANGES), path(NEXT_CHANGES)).unwrap();
    let count = life(folder.path(), async |cloud| cloud.step(|cloud, _| cloud.vms().count())).await;
    assert!(count == 1 && path(CHANGES).exists() && !path(NEXT_CHANGES).exists());
}

/// Changes, removes, repeats or inserts some bytes.
fn mutated(text: &[u8], stream: &mut Stream) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=stream.below(3) {
        let place = |stream: &mut Stream| stream.below(bytes.len() as u64 + 1) as usize;
        let (at, from) = (place(stream), place(stream));
        let to = (from + stream.below(600) as usize).min(bytes.len());
        match stream.below(5) {
            0 if at < bytes.len() => bytes[at] = stream.below(256) as u8,
            1 => bytes.insert(at, stream.below(256) as u8),
            2 => drop(bytes.drain(from..to)),
            3 => {
                let part = bytes[from..to].to_vec();
                bytes.splice(at..at, part);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// `DRYDOCK_FUZZ_ROUNDS` sets the number of rounds; each depends only on its number.
#[tokio::test]
async fn no_content_makes_the_reader_panic_or_invent_a_state() {
    let sample = sample().await;
    let rounds = std::env::var("DRYDOCK_FUZZ_ROUNDS").map_or(2000, |text| text.parse().unwrap());
    let (mut read, mut refused) = (0, 0);
    for round in 0..rounds {
        let mut stream = Seed::new(round).stream("ledger");
        let contents = match stream.below(2) {
            0 => sample.with_ledger(mutated(sample.ledger(), &mut stream)),
            _ => sample.with_changes(mutated(sample.changes(), &mut stream)),
        };
        match load(&contents) {
            Ok(loaded) => {
                read += 1;
                assert!(sample.states.contains(&loaded.unwrap().state), "round {round}");
            }
            Err(damage) => {
                refused += 1;
                assert!([LEDGER, CHANGES].contains(&damage.file), "round {round}: {damage}");
                let kept = salvage(&contents).ok().map(|salvage| salvage.state.check());
                assert_ne!(kept.map(|checked| checked.is_ok()), Some(false), "round {round}");
            }
        }
    }
    assert!(read > 0 && refused > 0, "{read} were read, {refused} refused");
}
