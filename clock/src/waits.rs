//! Reads from the kernel how long threads waited for a core.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long each thread, by its folder in `/proc`, has waited for a core since its start.
#[derive(Debug, Default)]
pub(crate) struct Waits(BTreeMap<PathBuf, Duration>);

impl Waits {
    /// The longest wait of any thread of this process since the last call; zero if the kernel provides no statistics.
    pub(crate) fn of_this_process(&mut self) -> Duration {
        self.longest(threads(Path::new("/proc/self")))
    }

    /// The longest wait of any thread of the processes that this process started, directly or indirectly, since the
    /// last call. A thread that ended since then does not count.
    pub(crate) fn of_descendants(&mut self) -> Duration {
        let descendants = descendants(std::process::id(), &parents());
        let folders = descendants
            .into_iter()
            .map(|process| PathBuf::from(format!("/proc/{process}")));
        self.longest(folders.flat_map(|folder| threads(&folder)))
    }

    fn longest(&mut self, threads: impl IntoIterator<Item = PathBuf>) -> Duration {
        let now: BTreeMap<PathBuf, Duration> = threads
            .into_iter()
            .filter_map(|thread| {
                let statistics = std::fs::read_to_string(thread.join("schedstat")).ok()?;
                Some((thread, waited(&statistics)?))
            })
            .collect();
        let before = std::mem::replace(&mut self.0, now);
        let since = |(thread, waited): (&PathBuf, &Duration)| {
            waited.saturating_sub(before.get(thread).copied().unwrap_or_default())
        };
        self.0.iter().map(since).max().unwrap_or_default()
    }
}

/// The folders of the threads of a process.
fn threads(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let threads = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    threads.map(|thread| thread.path())
}

/// Each process and its parent.
fn parents() -> Vec<(u32, u32)> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    folders
        .filter_map(|folder| {
            let process = folder.file_name().to_str()?.parse().ok()?;
            let status = std::fs::read_to_string(folder.path().join("stat")).ok()?;
            Some((process, parent(&status)?))
        })
        .collect()
}

/// The processes below `root`, without it.
fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut unvisited = vec![root];
    while let Some(parent) = unvisited.pop() {
        let children = parents
            .iter()
            .filter(|(_, of)| *of == parent)
            .map(|(process, _)| *process);
        let before = found.len();
        found.extend(children);
        unvisited.extend_from_slice(&found[before..]);
    }
    found
}

/// The parent in a stat file, `pid (name) state parent …`. The name may contain spaces and parentheses.
fn parent(status: &str) -> Option<u32> {
    status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The second number of a schedstat file: nanoseconds that the thread waited on a run queue.
fn waited(statistics: &str) -> Option<Duration> {
    statistics
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_on_a_run_queue_is_the_second_number() {
        assert_eq!(waited("2025989 8328193 4\n"), Some(Duration::from_nanos(8_328_193)));
        assert_eq!(waited(""), None);
    }

    #[test]
    fn the_parent_follows_the_name_and_the_state() {
        assert_eq!(parent("26986 (cat) R 26980 26980 25417 0"), Some(26980));
        assert_eq!(parent("7 (a) b (c) S 3 7 7 0"), Some(3));
        assert_eq!(parent(""), None);
    }

    #[test]
    fn descendants_are_children_and_their_children() {
        let parents = [(2, 1), (3, 2), (4, 2), (5, 4), (6, 1), (7, 99)];
        let mut found = descendants(2, &parents);
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5]);
        assert_eq!(descendants(5, &parents), [0_u32; 0]);
    }
}
