//! The numbers of one target.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::COMPONENT;
use super::target::Target;
use super::text::{Label, Sample, sample, seconds};

/// The upper bounds of upstream's buckets in milliseconds.
pub(super) const BUCKETS: [u64; 22] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1000, 1250, 1500, 2000, 3000, 4000, 5000, 6000, 8000, 10_000, 15_000, 20_000,
    30_000, 45_000,
];
/// The bound of the last finite bucket.
const LAST_BUCKET: u64 = 60_000;
/// How many different codes are counted; further ones count as code 0.
const CODES: usize = 16;

/// The numbers of one target.
#[derive(Debug)]
pub(super) struct Series {
    labels: Vec<Label>,
    /// Each code gets the first free position; 0 is free.
    codes: [AtomicU32; CODES],
    counts: [AtomicU64; CODES],
    other_codes: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len()],
    last_bucket: AtomicU64,
    nanoseconds: AtomicU64,
    responses: AtomicU64,
    panics: AtomicU64,
    watches: Arc<AtomicU64>,
}

impl Series {
    pub(super) fn new(target: &Target<'_>) -> Self {
        let mut labels: Vec<Label> = target.labels().map(|(name, value)| (name, value.to_owned())).into();
        labels.insert(0, ("component", COMPONENT.to_owned()));
        Self {
            labels,
            codes: Default::default(),
            counts: Default::default(),
            other_codes: AtomicU64::new(0),
            buckets: Default::default(),
            last_bucket: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            responses: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            watches: Arc::default(),
        }
    }

    pub(super) fn labels(&self) -> &[Label] {
        &self.labels
    }

    pub(super) fn is_of(&self, target: &Target<'_>) -> bool {
        let values = self.labels.iter().skip(1).map(|(_, value)| value.as_str());
        values.eq(target.labels().map(|(_, value)| value))
    }

    pub(super) fn is_watch(&self) -> bool {
        self.labels.contains(&("verb", "WATCH".to_owned()))
    }

    pub(super) fn responded(&self, code: u16, took: Duration) {
        self.count_of(code).fetch_add(1, Ordering::Relaxed);
        let milliseconds = took.as_millis();
        let within = |bound: &u64| milliseconds <= u128::from(*bound);
        match BUCKETS
            .iter()
            .position(within)
            .and_then(|index| self.buckets.get(index))
        {
            Some(bucket) => drop(bucket.fetch_add(1, Ordering::Relaxed)),
            None if within(&LAST_BUCKET) => drop(self.last_bucket.fetch_add(1, Ordering::Relaxed)),
            None => {}
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.responses.fetch_add(1, Ordering::Relaxed);
    }

    fn count_of(&self, code: u16) -> &AtomicU64 {
        let code = u32::from(code);
        for (known, count) in self.codes.iter().zip(&self.counts) {
            let found = match known.load(Ordering::Relaxed) {
                0 => known.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed),
                found => Err(found),
            };
            if found.is_ok() || found == Err(code) {
                return count;
            }
        }
        &self.other_codes
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(super) fn watches(&self) -> &Arc<AtomicU64> {
        &self.watches
    }

    pub(super) fn open_watches(&self) -> u64 {
        self.watches.load(Ordering::Relaxed)
    }

    /// The codes of responses with their numbers, sorted.
    pub(super) fn codes(&self) -> Vec<(String, u64)> {
        let codes = self.codes.iter().map(|code| code.load(Ordering::Relaxed)).chain([0]);
        let counts = self.counts.iter().chain([&self.other_codes]);
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        let mut found: Vec<(u32, u64)> = codes.zip(counts).filter(|(_, count)| *count > 0).collect();
        found.sort_unstable();
        found
            .into_iter()
            .map(|(code, count)| (code.to_string(), count))
            .collect()
    }

    /// The samples of the histogram; none for watches, and without requests.
    pub(super) fn histogram(&self) -> Vec<Sample> {
        let responses = self.responses.load(Ordering::Relaxed);
        if responses == 0 || self.is_watch() {
            return Vec::new();
        }
        let mut samples = Vec::new();
        let mut sum = 0_u64;
        let bounds = BUCKETS
            .iter()
            .zip(&self.buckets)
            .chain([(&LAST_BUCKET, &self.last_bucket)]);
        for (bound, count) in bounds {
            sum = sum.saturating_add(count.load(Ordering::Relaxed));
            let bound = seconds(bound.saturating_mul(1_000_000));
            samples.push(sample(&self.labels, &[("le", &bound)], sum).with_suffix("_bucket"));
        }
        samples.push(sample(&self.labels, &[("le", "+Inf")], responses).with_suffix("_bucket"));
        let nanoseconds = self.nanoseconds.load(Ordering::Relaxed);
        let total = Sample {
            value: nanoseconds as f64 / 1e9,
            ..sample(&self.labels, &[], 0)
        };
        samples.push(total.with_suffix("_sum"));
        samples.push(sample(&self.labels, &[], responses).with_suffix("_count"));
        samples
    }
}
