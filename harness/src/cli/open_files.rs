//! How many jobs the limit of open files allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::Usage;

/// What this process has open beside its jobs: the program, its terminal, signals, the runtimes.
const BASE: u64 = 40;
/// What a job opens at most: its listener, pipes and logs, and the connections of watches on both sides.
const PER_JOB: u64 = 100;

/// So many jobs, or as many as there is room for.
///
/// # Errors
/// When there is no room for one.
pub(super) fn most_jobs(wanted: usize) -> Result<usize, Usage> {
    let room = room(limit());
    if room == 0 { room_for(1) } else { Ok(wanted.min(room)) }
}

/// So many jobs, if there is room for all.
///
/// # Errors
/// One line with the limit, and what would do.
pub(super) fn room_for(jobs: usize) -> Result<usize, Usage> {
    refusal(jobs, limit()).map_or(Ok(jobs), |reason| Err(Usage(reason)))
}

fn refusal(jobs: usize, limit: u64) -> Option<String> {
    let room = room(limit);
    let need = BASE.saturating_add(PER_JOB.saturating_mul(jobs as u64));
    let fewer = match room {
        0 => String::new(),
        room => format!("give --jobs {room} at most, or "),
    };
    (jobs > room).then(|| {
        format!("--jobs {jobs} needs up to {need} open files, and the limit is {limit}: {fewer}raise it with `ulimit -n {need}`")
    })
}

fn room(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(BASE) / PER_JOB).unwrap_or(usize::MAX)
}

/// The limit, raised as far as this process may.
fn limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return u64::MAX;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plenty(16, 1_048_576, None)]
    #[case::just_enough(3, 340, None)]
    #[case::one_too_many(4, 340, Some("give --jobs 3 at most"))]
    #[case::not_even_one(1, 64, Some("raise it with `ulimit -n 140`"))]
    fn jobs_need_room_for_their_files(#[case] jobs: usize, #[case] limit: u64, #[case] said: Option<&str>) {
        let refusal = refusal(jobs, limit);
        assert_eq!(refusal.is_some(), said.is_some(), "{refusal:?}");
        assert!(refusal.is_none_or(|refusal| refusal.contains(said.unwrap_or_default())));
    }
}
