//! The log of a store in a folder: a restarted server continues with all objects and their recent history.
//!
//! A generation is a pair of files: `objects-N` contains all objects at one revision, `changes-N` every later change.
//! A change is written before it becomes visible, so it survives the end of the process at any moment; it is not
//! synchronised with the disk, so a crash of the host can lose the last changes. When the changes become long, the next
//! generation begins: its `changes` file first, then, in a thread, its `objects` file, which replaces the older files
//! once it is complete.

mod format;
mod load;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use durable::private_files;
use quantity::Saturating as _;

use self::format::Kind;
pub use self::load::{Damage, Entry, LoadError, Loaded, Record, load};
use super::{Change, Object};

/// The minimum length of the changes, in bytes, before the next generation begins.
const LONG: u64 = 8 << 20;

/// All objects of a store, by table.
pub(super) struct Content {
    pub(super) revision: u64,
    pub(super) tables: Vec<(String, Vec<Arc<Object>>)>,
}

/// Writes the log of a folder. There is one writer per folder.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    generation: u64,
    changes: File,
    /// Length of `changes`, in bytes.
    length: u64,
    /// Length of `changes` at which the next generation begins.
    limit: u64,
    /// An incomplete line could not be removed from the file: a further line would be damaged.
    broken: bool,
    /// Writes the objects of the current generation; returns their length in bytes.
    objects: Option<JoinHandle<io::Result<u64>>>,
}

impl Log {
    /// Begins the first generation of a new folder.
    pub(super) fn create(folder: &Path, content: &Content) -> io::Result<Self> {
        let (changes, length) = begin_changes(folder, 1, content.revision)?;
        let objects = write_objects(folder, 1, content)?;
        Ok(Self {
            folder: folder.to_owned(),
            generation: 1,
            changes,
            length,
            limit: limit(objects),
            broken: false,
            objects: None,
        })
    }

    /// Continues the last generation of a folder after its last complete change.
    pub(super) fn resume(folder: &Path, last: load::Last) -> io::Result<Self> {
        let load::Last {
            generation,
            length,
            objects,
        } = last;
        let path = folder.join(Kind::Changes.file(generation));
        let changes = private_files::open(&path, OpenOptions::new().append(true))?;
        changes.set_len(length)?;
        Ok(Self {
            folder: folder.to_owned(),
            generation,
            changes,
            length,
            limit: limit(objects),
            broken: false,
            objects: None,
        })
    }

    /// Writes a change.
    ///
    /// # Errors
    /// It could not be written, and the file is as before.
    pub(super) fn append(&mut self, table: &str, change: &Change) -> io::Result<()> {
        self.write(&format::change(table, change))
    }

    /// Writes that a table was retired.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub(super) fn retired(&mut self, table: &str) -> io::Result<()> {
        self.write(&format::retired(table))
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("an earlier write failed and could not be undone"));
        }
        let written = self.changes.write_all(line);
        match &written {
            Ok(()) => self.length.raise(line.len() as u64),
            Err(error) => {
                tracing::error!(folder = %self.folder.display(), %error, "a change cannot be written to the data folder");
                self.broken = self.changes.set_len(self.length).is_err();
            }
        }
        written
    }

    /// Whether the next generation should begin.
    pub(super) fn is_long(&mut self) -> bool {
        if self.length < self.limit {
            return false;
        }
        if self.objects.as_ref().is_some_and(|writer| !writer.is_finished()) {
            return false;
        }
        self.finish_objects();
        self.length >= self.limit
    }

    /// Begins the next generation. If this fails, the current one continues.
    pub(super) fn begin_generation(&mut self, content: Content) {
        let generation = self.generation.saturating_add(1);
        let begun = begin_changes(&self.folder, generation, content.revision);
        let (changes, length) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.put_off(&error),
        };
        let folder = self.folder.clone();
        let writer = std::thread::Builder::new().name("objects".to_owned());
        let writer = writer.spawn(move || write_objects(&folder, generation, &content));
        (self.generation, self.changes, self.length) = (generation, changes, length);
        match writer {
            Ok(writer) => self.objects = Some(writer),
            Err(error) => self.put_off(&error),
        }
    }

    /// Waits until the objects of the current generation are complete.
    fn finish_objects(&mut self) {
        let Some(writer) = self.objects.take() else { return };
        match writer.join() {
            Ok(Ok(objects)) => self.limit = limit(objects),
            Ok(Err(error)) => self.put_off(&error),
            Err(_) => self.put_off(&io::Error::other("the writer panicked")),
        }
    }

    /// Without the objects of the new generation the older files stay, and are read at the next start.
    fn put_off(&mut self, error: &io::Error) {
        tracing::warn!(folder = %self.folder.display(), %error, "all objects cannot be written to the data folder; the changes grow");
        self.limit = self.length.saturating_add(LONG);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.finish_objects();
    }
}

fn limit(objects: u64) -> u64 {
    LONG.max(objects.saturating_mul(2))
}

/// Creates the file of changes of a generation; returns it and its length.
fn begin_changes(folder: &Path, generation: u64, revision: u64) -> io::Result<(File, u64)> {
    let header = format::header(Kind::Changes, generation, revision)?;
    let new = folder.join(Kind::Changes.unfinished(generation));
    remove(&new)?;
    let mut changes = private_files::open(&new, OpenOptions::new().append(true).create_new(true))?;
    changes.write_all(&header)?;
    // Last: once the file has its name, it is the one that changes are read from.
    std::fs::rename(&new, folder.join(Kind::Changes.file(generation)))?;
    Ok((changes, header.len() as u64))
}

/// Writes all objects of a generation and removes the older generations; returns the length in bytes.
fn write_objects(folder: &Path, generation: u64, content: &Content) -> io::Result<u64> {
    let new = folder.join(Kind::Objects.unfinished(generation));
    let header = format::header(Kind::Objects, generation, content.revision)?;
    let mut file = BufWriter::new(private_files::replace(&new, &header)?);
    let mut number: u64 = 0;
    for (table, objects) in &content.tables {
        for object in objects {
            file.write_all(&format::object(table, object))?;
            number.raise(1);
        }
    }
    file.write_all(&format::end(number))?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    std::fs::rename(&new, folder.join(Kind::Objects.file(generation)))?;
    for old in load::generations(folder)? {
        for kind in [Kind::Objects, Kind::Changes] {
            if old < generation {
                remove(&folder.join(kind.file(old)))?;
            }
        }
    }
    Ok(file.metadata()?.len())
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
