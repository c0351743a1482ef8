//! Leader election with one Lease, as a pure function: the next write, or how long to wait.
//!
//! Every write is a compare-and-swap on the Lease's resourceVersion. Times in the Lease are never compared with the
//! local clock: another holder counts as expired by the time since this process observed a change of the Lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The periods of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Other candidates take over this long after the last renewal that they observed.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long stops leading; shorter than the lease duration.
    pub renew_deadline: Duration,
    /// The interval between attempts.
    pub retry_period: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// The Lease as this process last observed it.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedLease {
    /// Its content.
    pub spec: LeaseSpec,
    /// The version that a write must replace.
    pub resource_version: String,
    /// When this process first observed this version, by its own clock.
    pub observed_at: Timestamp,
}

/// The input of a candidate's decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The Lease; `None`: it does not exist.
    pub lease: Option<ObservedLease>,
    /// The name under which this process is a candidate; unique to it.
    pub identity: String,
    /// When this process last wrote the Lease as its holder; `None`: it does not lead.
    pub renewed_at: Option<Timestamp>,
    /// Whether an attempt to renew failed since then.
    pub failed: bool,
}

/// The next step of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Acquire the Lease: create it if `resource_version` is `None`, or else replace that version.
    Acquire {
        /// The content to write.
        spec: LeaseSpec,
        /// The version to replace.
        resource_version: Option<String>,
    },
    /// Renew the Lease: replace that version.
    Renew {
        /// The content to write.
        spec: LeaseSpec,
        /// The version to replace.
        resource_version: String,
    },
    /// Nothing to do before then, or before the Lease changes.
    Wait(Timestamp),
    /// This process led and must stop at once.
    Lost,
}

/// Decides the next step of a candidate. After a failed write the caller reads the Lease again, waits
/// for a retry period and decides again.
pub fn step(view: &View, settings: &Settings, now: Timestamp) -> Step {
    let Some(lease) = &view.lease else {
        return match view.renewed_at {
            Some(_) => Step::Lost,
            None => Step::Acquire {
                spec: held_by(view, None, settings, now),
                resource_version: None,
            },
        };
    };
    let holder = lease.spec.holder_identity.as_deref().unwrap_or_default();
    match view.renewed_at {
        Some(_) if holder != view.identity => Step::Lost,
        Some(renewed_at) if now >= after(renewed_at, give_up_after(view.failed, settings)) => Step::Lost,
        Some(renewed_at) if now < after(renewed_at, settings.retry_period) => {
            Step::Wait(after(renewed_at, settings.retry_period))
        }
        Some(_) => Step::Renew {
            spec: held_by(view, Some(&lease.spec), settings, now),
            resource_version: lease.resource_version.clone(),
        },
        None => candidate(view, lease, holder, settings, now),
    }
}

/// How long after its last renewal a leader stops trying. A process that could not try within the renew deadline, for
/// example because it was stopped, tries once more while no other candidate can have taken the Lease over: until then it
/// does not act, and the write fails if the Lease has changed.
pub(super) fn give_up_after(failed: bool, settings: &Settings) -> Duration {
    if failed {
        settings.renew_deadline
    } else {
        settings.lease_duration
    }
}

fn candidate(view: &View, lease: &ObservedLease, holder: &str, settings: &Settings, now: Timestamp) -> Step {
    let seconds = lease
        .spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let expiry = after(
        lease.observed_at,
        seconds.map_or(settings.lease_duration, Duration::from_secs),
    );
    if holder.is_empty() || holder == view.identity || now >= expiry {
        let spec = held_by(view, Some(&lease.spec), settings, now);
        return Step::Acquire {
            spec,
            resource_version: Some(lease.resource_version.clone()),
        };
    }
    Step::Wait(expiry.min(after(now, settings.retry_period)))
}

/// The content with which a stopping leader releases the Lease, so that the next leader need not wait;
/// `None`: this process does not hold it. It replaces the version in the view.
pub fn release(view: &View, now: Timestamp) -> Option<LeaseSpec> {
    let lease = view.lease.as_ref()?;
    let held = lease.spec.holder_identity.as_deref() == Some(view.identity.as_str());
    (held && view.renewed_at.is_some()).then(|| LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        acquire_time: Some(MicroTime(now)),
        ..lease.spec.clone()
    })
}

/// The Lease's content with this candidate as its holder.
fn held_by(view: &View, old: Option<&LeaseSpec>, settings: &Settings, now: Timestamp) -> LeaseSpec {
    let before = old.cloned().unwrap_or_default();
    let same_holder = before.holder_identity.as_deref() == Some(view.identity.as_str());
    let transitions = before.lease_transitions.unwrap_or(0) + i32::from(old.is_some() && !same_holder);
    let acquired = before.acquire_time.clone().filter(|_| same_holder);
    LeaseSpec {
        holder_identity: Some(view.identity.clone()),
        lease_duration_seconds: Some(whole_seconds(settings.lease_duration)),
        acquire_time: acquired.or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..before
    }
}

/// Rounds up: other candidates use the duration in the Lease, and must not take over before its holder stops leading.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
}

/// `time` plus `duration`, saturating at [`Timestamp::MAX`].
fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn lease(holder: &str, observed_at: Timestamp) -> ObservedLease {
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(at(-100))),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        };
        ObservedLease {
            spec,
            resource_version: "7".to_owned(),
            observed_at,
        }
    }

    fn view(lease: Option<ObservedLease>, renewed_at: Option<Timestamp>) -> View {
        View {
            lease,
            identity: "me".to_owned(),
            renewed_at,
            failed: false,
        }
    }

    fn outcome(view: &View, now: Timestamp) -> String {
        match step(view, &Settings::default(), now) {
            Step::Acquire { spec, resource_version } => {
                let transitions = spec.lease_transitions.unwrap();
                format!(
                    "acquire {} transitions={transitions}",
                    resource_version.unwrap_or_else(|| "new".to_owned())
                )
            }
            Step::Renew { spec, resource_version } => {
                assert_eq!(
                    spec.acquire_time,
                    Some(MicroTime(at(-100))),
                    "a renewal keeps the time of acquisition"
                );
                format!("renew {resource_version}")
            }
            Step::Wait(until) => format!("wait until {}", until.as_second() - at(0).as_second()),
            Step::Lost => "lost".to_owned(),
        }
    }

    #[rstest]
    #[case::no_lease(None, 0, "acquire new transitions=0")]
    #[case::released(Some(lease("", at(0))), 0, "acquire 7 transitions=4")]
    #[case::held_by_another(Some(lease("other", at(0))), 1, "wait until 3")]
    #[case::another_is_about_to_expire(Some(lease("other", at(0))), 14, "wait until 15")]
    #[case::another_has_expired(Some(lease("other", at(0))), 15, "acquire 7 transitions=4")]
    #[case::held_by_the_same_identity(Some(lease("me", at(0))), 1, "acquire 7 transitions=3")]
    fn a_candidate_acquires_a_free_or_expired_lease(
        #[case] lease: Option<ObservedLease>,
        #[case] now: i64,
        #[case] expected: &str,
    ) {
        assert_eq!(outcome(&view(lease, None), at(now)), expected);
    }

    #[rstest]
    #[case::just_renewed(Some(lease("me", at(0))), false, 1, "wait until 2")]
    #[case::due(Some(lease("me", at(0))), false, 2, "renew 7")]
    #[case::after_a_failed_attempt(Some(lease("me", at(0))), true, 9, "renew 7")]
    #[case::attempts_failed_until_the_renew_deadline(Some(lease("me", at(0))), true, 10, "lost")]
    #[case::stopped_beyond_the_renew_deadline(Some(lease("me", at(0))), false, 14, "renew 7")]
    #[case::stopped_for_as_long_as_the_lease(Some(lease("me", at(0))), false, 15, "lost")]
    #[case::taken_by_another(Some(lease("other", at(1))), false, 1, "lost")]
    #[case::deleted(None, false, 1, "lost")]
    fn a_leader_renews_until_its_deadline(
        #[case] lease: Option<ObservedLease>,
        #[case] failed: bool,
        #[case] now: i64,
        #[case] expected: &str,
    ) {
        let view = View {
            failed,
            ..view(lease, Some(at(0)))
        };
        assert_eq!(outcome(&view, at(now)), expected);
    }

    #[test]
    fn two_processes_never_lead_at_the_same_time() {
        let settings = Settings::default();
        for (observed_later, failed) in (0..5).zip([false, true].into_iter().cycle()) {
            let observed_by_other = at(observed_later);
            let leader = View {
                failed,
                ..view(Some(lease("me", at(0))), Some(at(0)))
            };
            let stops = (0..).find(|s| step(&leader, &settings, at(*s)) == Step::Lost);
            let takes_over = (0..).find(|s| {
                let other = View {
                    lease: Some(lease("me", observed_by_other)),
                    identity: "other".to_owned(),
                    renewed_at: None,
                    failed: false,
                };
                matches!(step(&other, &settings, at(*s)), Step::Acquire { .. })
            });
            assert!(stops.unwrap() <= takes_over.unwrap());
        }
    }

    #[rstest]
    #[case::whole(15_000, 15)]
    #[case::half(2_500, 3)]
    #[case::less_than_one(300, 1)]
    fn the_duration_in_the_lease_is_rounded_up(#[case] millis: u64, #[case] seconds: i32) {
        let settings = Settings {
            lease_duration: Duration::from_millis(millis),
            ..Settings::default()
        };
        let Step::Acquire { spec, .. } = step(&view(None, None), &settings, at(0)) else {
            panic!("a free lease is not acquired");
        };
        assert_eq!(spec.lease_duration_seconds, Some(seconds));
    }

    #[test]
    fn a_stopping_leader_releases_the_lease() {
        let released = release(&view(Some(lease("me", at(0))), Some(at(0))), at(1)).unwrap();
        assert_eq!(released.holder_identity.as_deref(), Some(""));
        assert_eq!(released.lease_transitions, Some(3));
        assert_eq!(release(&view(Some(lease("other", at(0))), Some(at(0))), at(1)), None);
        assert_eq!(release(&view(Some(lease("me", at(0))), None), at(1)), None);
    }
}
