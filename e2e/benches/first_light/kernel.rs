//! Kernel statistics of a process: CPU time and memory, of itself or of its whole process tree.

use std::path::Path;

use anyhow::{Context, Result};

/// The kernel reports CPU time in hundredths of a second.
const TICKS_A_SECOND: f64 = 100.0;

/// CPU time so far in seconds, user and system, all threads.
pub fn cpu_seconds(process: u32) -> Result<f64> {
    let text = read(process, "stat")?;
    // The second field is the program's name in brackets, which may contain anything.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| -> Result<f64> {
        let field = fields.get(index).context("/proc/PID/stat is too short")?;
        Ok(field.parse::<u32>()?.into())
    };
    Ok((ticks(11)? + ticks(12)?) / TICKS_A_SECOND)
}

/// The peak of resident memory, in MiB.
pub fn peak_mebibytes(process: u32) -> Result<f64> {
    mebibytes(process, "VmHWM:")
}

/// The current resident memory, in MiB.
pub fn resident_mebibytes(process: u32) -> Result<f64> {
    mebibytes(process, "VmRSS:")
}

/// The process and all of its running descendants.
pub fn family(process: u32) -> Result<Vec<u32>> {
    let mut members = vec![process];
    let mut next = 0;
    while let Some(&member) = members.get(next) {
        next += 1;
        let tasks = format!("/proc/{member}/task");
        for task in std::fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))? {
            // A thread may end between the two calls.
            let Ok(children) = std::fs::read_to_string(task?.path().join("children")) else {
                continue;
            };
            members.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    Ok(members)
}

/// The sum of a figure over all processes of a tree.
pub fn sum(family: &[u32], figure: fn(u32) -> Result<f64>) -> Result<f64> {
    family.iter().map(|&member| figure(member)).sum()
}

fn mebibytes(process: u32, field: &str) -> Result<f64> {
    let text = read(process, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    let kibibytes: u32 = kibibytes
        .with_context(|| format!("/proc/PID/status has no {field}"))?
        .parse()?;
    Ok(f64::from(kibibytes) / 1024.0)
}

fn read(process: u32, file: &str) -> Result<String> {
    let path = Path::new("/proc").join(process.to_string()).join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}; this bench needs Linux", path.display()))
}
