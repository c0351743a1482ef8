//! Limits the number of jobs by the limit of open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::Stop;

/// Open files of this process without jobs: the program, its terminal, signals, the runtimes.
const BASE: u64 = 40;
/// Maximum of open files of a job: its listener, pipes and logs, and the connections of watches on both sides.
const PER_JOB: u64 = 100;

/// The desired number of jobs, or the maximum that the limit allows.
///
/// # Errors
/// When the limit does not allow one job.
pub(super) fn limit_jobs(desired: usize) -> Result<usize, Stop> {
    let maximum = maximum(limit());
    if maximum == 0 {
        check_jobs(1)
    } else {
        Ok(desired.min(maximum))
    }
}

/// The number of jobs, if the limit allows it.
///
/// # Errors
/// One line with the limit and the fix.
pub(super) fn check_jobs(jobs: usize) -> Result<usize, Stop> {
    refusal(jobs, limit()).map_or(Ok(jobs), |reason| Err(Stop::Usage(reason)))
}

fn refusal(jobs: usize, limit: u64) -> Option<String> {
    let maximum = maximum(limit);
    let need = BASE.saturating_add(PER_JOB.saturating_mul(jobs as u64));
    let fewer = match maximum {
        0 => String::new(),
        maximum => format!("give --jobs {maximum} at most, or "),
    };
    (jobs > maximum).then(|| {
        format!("--jobs {jobs} needs up to {need} open files, and the limit is {limit}: {fewer}raise it with `ulimit -n {need}`")
    })
}

fn maximum(limit: u64) -> usize {
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
    fn the_number_of_jobs_is_limited_by_open_files(
        #[case] jobs: usize,
        #[case] limit: u64,
        #[case] expected: Option<&str>,
    ) {
        let refusal = refusal(jobs, limit);
        assert_eq!(refusal.is_some(), expected.is_some(), "{refusal:?}");
        assert!(refusal.is_none_or(|refusal| refusal.contains(expected.unwrap_or_default())));
    }
}
