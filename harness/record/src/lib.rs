//! The record of a run: everything that was observed, as data, for reports and other programs.
//!
//! [`RunRecord`] is the format. A [`Recorder`] collects a record while the run is in progress and takes the causes of events
//! from a trace, and [`read()`] parses a record of any origin. Everything here is pure: no file, no clock.

mod activity;
mod align;
mod campaign;
mod causes;
mod compare;
mod counters;
mod diff;
mod draft;
pub mod export;
mod limits;
mod logs;
mod model;
mod narrative;
mod read;
mod recorder;
mod redact;

pub use self::activity::activity;
pub use self::align::{AlignedLane, AlignedRow, Alignment, Places, align};
pub use self::campaign::{
    CAMPAIGN_FILE, CampaignRecord, EventTally, GroupRecord, InvariantTally, RARE_ONE_OF, Reach, read_campaign,
};
pub use self::causes::{TraceEntry, TraceEvent};
pub use self::compare::{Comparison, compare};
pub use self::limits::MOST_POINTS;
pub use self::model::{
    Actor, ActorKind, Causes, Check, CheckKind, CheckState, Counter, CounterStep, DisturbanceCount, Dropped, Link, Log,
    LogLine, Meta, Micros, Place, Point, RunRecord, Span, SpanClass, TraceHash, Unmet, Verb, Verdict,
};
pub use self::narrative::{Line, narrative};
pub use self::read::{MOST_BYTES, ReadError, check_size, read};
pub use self::recorder::{Limit, Program, Recorder, Session, StageEvent, StageEventKind, Window};
pub use self::redact::{is_copy, without_secrets};

/// The name of the file with a record.
pub const FILE: &str = "run.drydock.json";
/// The version of the format that this version of the program writes. Programs refuse records of newer versions.
pub const VERSION: u32 = 1;
