//! Reads a log. Every deviation from the format is an error with its place, except an incomplete last line: its change
//! was never acknowledged.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use durable::lines::{Line, LineError, lines};
use durable::private_files;

use super::format::{Body, Header, Kind, Stored, VERSION};

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An object was created or changed.
    Put(Entry),
    /// An object was deleted; the entry has its last state.
    Delete(Entry),
    /// A table was retired.
    Retire(String),
}

/// An object in its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The table.
    pub table: String,
    /// The revision of the object.
    pub revision: u64,
    /// The encoded object.
    pub text: Box<str>,
}

/// The content of a log.
#[derive(Debug)]
pub struct Loaded {
    /// The revision of [`Self::objects`].
    pub base: u64,
    /// All objects at that revision.
    pub objects: Vec<Entry>,
    /// Every later change.
    pub changes: Vec<Record>,
    pub(in crate::store) last: Last,
}

impl Loaded {
    /// The tables with objects or changes.
    pub fn tables(&self) -> BTreeSet<&str> {
        let changed = self.changes.iter().map(|change| match change {
            Record::Put(entry) | Record::Delete(entry) => entry.table.as_str(),
            Record::Retire(table) => table.as_str(),
        });
        let objects = self.objects.iter().map(|entry| entry.table.as_str());
        objects.chain(changed).collect()
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        let revision = |change: &Record| match change {
            Record::Put(entry) | Record::Delete(entry) => Some(entry.revision),
            Record::Retire(_) => None,
        };
        self.changes.iter().rev().find_map(revision).unwrap_or(self.base)
    }
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Last {
    pub(super) generation: u64,
    /// Length of the complete changes, in bytes.
    pub(super) length: u64,
    /// Length of the file of objects, in bytes.
    pub(super) objects: u64,
}

/// Damage of a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The damaged line, from 1.
    pub line: usize,
    /// The position of its first byte.
    pub offset: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            offset,
            reason,
        } = self;
        let file = file.display();
        write!(f, "{file} is damaged at byte {offset} (line {line}): {reason}")
    }
}

/// The reason why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The operating system refuses.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A file is damaged.
    #[error("{0}; restore the folder from a copy, or use another folder")]
    Damaged(Damage),
    /// A later version wrote the log.
    #[error("{file} has the format {version}, and this program reads {VERSION}: use the program that wrote it")]
    Later {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// A file in memory.
struct Text {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Text {
    fn read(folder: &Path, name: &str) -> Result<Option<Self>, LoadError> {
        let path = folder.join(name);
        match private_files::read(&path) {
            Ok(bytes) => Ok(bytes.map(|bytes| Self { path, bytes })),
            Err(source) => Err(LoadError::Io { path, source }),
        }
    }

    fn missing(folder: &Path, name: &str) -> LoadError {
        LoadError::Damaged(Damage {
            file: folder.join(name),
            line: 1,
            offset: 0,
            reason: "the file is missing".to_owned(),
        })
    }

    fn damage(&self, line: &Line<'_>, reason: impl fmt::Display) -> LoadError {
        LoadError::Damaged(Damage {
            file: self.path.clone(),
            line: line.number,
            offset: line.offset,
            reason: reason.to_string(),
        })
    }

    /// The header, and the lines after it.
    fn open(&self, kind: Kind, generation: u64) -> Result<(Header, impl Iterator<Item = Line<'_>>), LoadError> {
        #[derive(serde::Deserialize)]
        struct Version {
            version: u32,
        }
        let mut lines = lines(&self.bytes);
        let empty = Line {
            number: 1,
            offset: 0,
            text: &[],
            ended: false,
        };
        let line = lines.next().unwrap_or(empty);
        let version: Version = line.decode().map_err(|error| self.damage(&line, error))?;
        if version.version > VERSION {
            return Err(LoadError::Later {
                file: self.path.clone(),
                version: version.version,
            });
        }
        let header: Header = line.decode().map_err(|error| self.damage(&line, error))?;
        if (header.file, header.generation) != (kind, generation) {
            return Err(self.damage(&line, "this is the content of another file"));
        }
        Ok((header, lines))
    }

    fn body<'a>(&self, line: &Line<'a>) -> Result<Body<'a>, LoadError> {
        let text = line.content().map_err(|error| self.damage(line, error))?;
        let syntax = |error: serde_json::Error| self.damage(line, LineError::Syntax(error.to_string()));
        serde_json::from_slice(text).map_err(syntax)
    }
}

/// Reads the log of a folder; `None`: the folder has none.
///
/// # Errors
/// See [`LoadError`]; no file is changed.
pub fn load(folder: &Path) -> Result<Option<Loaded>, LoadError> {
    let found = generations(folder).map_err(|source| LoadError::Io {
        path: folder.to_owned(),
        source,
    })?;
    let Some(newest) = found.last().copied() else {
        return Ok(None);
    };
    let mut base = newest;
    let objects = loop {
        if let Some(objects) = Text::read(folder, &Kind::Objects.file(base))? {
            break objects;
        }
        base = match found.iter().rev().find(|generation| **generation < base) {
            Some(earlier) => *earlier,
            // The first start ended before it served anything.
            None if newest == 1 && is_unused(folder)? => return Ok(None),
            None => return Err(Text::missing(folder, &Kind::Objects.file(base))),
        };
    };
    let (header, content) = read_objects(&objects, base)?;
    let mut loaded = Loaded {
        base: header.revision,
        objects: content,
        changes: Vec::new(),
        last: Last {
            generation: newest,
            length: 0,
            objects: objects.bytes.len() as u64,
        },
    };
    drop(objects);
    let mut revision = loaded.base;
    for generation in base..=newest {
        let name = Kind::Changes.file(generation);
        let changes = Text::read(folder, &name)?.ok_or_else(|| Text::missing(folder, &name))?;
        let torn = read_changes(
            &changes,
            generation,
            generation == newest,
            &mut revision,
            &mut loaded.changes,
        )?;
        loaded.last.length = changes.bytes.len().saturating_sub(torn) as u64;
    }
    Ok(Some(loaded))
}

/// Whether the first file of changes has none.
fn is_unused(folder: &Path) -> Result<bool, LoadError> {
    let changes = Text::read(folder, &Kind::Changes.file(1))?;
    Ok(changes.is_none_or(|changes| lines(&changes.bytes).count() <= 1))
}

fn read_objects(file: &Text, generation: u64) -> Result<(Header, Vec<Entry>), LoadError> {
    let (header, mut lines) = file.open(Kind::Objects, generation)?;
    let mut objects = Vec::new();
    for line in lines.by_ref() {
        match file.body(&line)? {
            Body::Put(stored) if stored.revision <= header.revision => objects.push(entry(stored)),
            Body::End(number) if number == objects.len() as u64 => {
                return match lines.next() {
                    None => Ok((header, objects)),
                    Some(line) => Err(file.damage(&line, "nothing belongs here")),
                };
            }
            _ => return Err(file.damage(&line, "this line does not belong here")),
        }
    }
    let end = Line {
        number: objects.len().saturating_add(2),
        offset: file.bytes.len(),
        text: &[],
        ended: false,
    };
    Err(file.damage(&end, "the rest is missing"))
}

/// Appends the changes of a file; returns the length of its incomplete last line.
fn read_changes(
    file: &Text,
    generation: u64,
    is_last: bool,
    revision: &mut u64,
    changes: &mut Vec<Record>,
) -> Result<usize, LoadError> {
    let (header, lines) = file.open(Kind::Changes, generation)?;
    let follows = |line: &Line<'_>, expected: u64, found: u64| match expected == found {
        true => Ok(()),
        false => Err(file.damage(line, format!("it has revision {found}, and {expected} belongs here"))),
    };
    if header.revision != *revision {
        let line = Line {
            number: 1,
            offset: 0,
            text: &[],
            ended: true,
        };
        follows(&line, *revision, header.revision)?;
    }
    for line in lines {
        if is_last && !line.ended && !line.has_damaged_end() {
            return Ok(line.text.len());
        }
        let record = match file.body(&line)? {
            Body::Put(stored) => Record::Put(entry(stored)),
            Body::Delete(stored) => Record::Delete(entry(stored)),
            Body::Retire(table) => Record::Retire(table),
            Body::End(_) => return Err(file.damage(&line, "this line does not belong here")),
        };
        if let Record::Put(entry) | Record::Delete(entry) = &record {
            let next = revision.saturating_add(1);
            follows(&line, next, entry.revision)?;
            *revision = next;
        }
        changes.push(record);
    }
    Ok(0)
}

fn entry(stored: Stored<'_>) -> Entry {
    Entry {
        table: stored.table,
        revision: stored.revision,
        text: stored.object.get().into(),
    }
}

/// The generations of a folder, in order.
pub(super) fn generations(folder: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let name = file?.file_name();
        let number: Option<u64> = name.to_str().and_then(|name| {
            let number = name.strip_prefix("objects-").or_else(|| name.strip_prefix("changes-"));
            number?.parse().ok()
        });
        found.extend(number);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
