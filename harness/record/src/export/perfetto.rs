//! A record as a Perfetto trace (`.pftrace`), for `ui.perfetto.dev`.

use std::collections::BTreeMap;

use prost::Message as _;

use super::track_event::{
    CounterDescriptor, DebugAnnotation, EventType, Trace, TracePacket, TrackDescriptor, TrackEvent,
};
use super::word;
use crate::{ActorKind, Micros, Point, RunRecord, Span, SpanClass};

/// All events of a trace are of one sequence.
const SEQUENCE: u32 = 1;

/// The record as an encoded trace. Each actor has a track below that of its parent or kind: its states are slices, its
/// events are moments, with arrows from their causes. Each counter has a track in its chart.
pub fn perfetto(record: &RunRecord) -> Vec<u8> {
    let mut tracks = Tracks::default();
    tracks.add_actors(record);
    let mut events = Vec::new();
    for span in &record.spans {
        if let Some(track) = tracks.of_span(span) {
            events.extend(slice(record, span, track));
        }
    }
    let flows = flows(&record.points);
    for point in &record.points {
        if let Some(track) = tracks.of_actor(&point.actor) {
            events.push((point.at, Order::Moment, moment(point, track, flows.get(&point.number))));
        }
    }
    for counter in &record.counters {
        let track = tracks.add_counter(&counter.chart, &counter.name);
        let numbers = counter.steps.iter().map(|step| {
            let value = i64::try_from(step.value).unwrap_or(i64::MAX);
            let event = TrackEvent {
                counter_value: Some(value),
                ..event(EventType::Counter, track)
            };
            (step.at, Order::Moment, event)
        });
        events.extend(numbers);
    }
    // Stable: events of one time keep their order.
    events.sort_by_key(|(at, order, _)| (*at, *order));
    let events = events.into_iter().map(|(at, _, event)| TracePacket {
        timestamp: Some(at.0.saturating_mul(1000)),
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_event: Some(event),
        track_descriptor: None,
    });
    let packet = tracks.packets.into_iter().chain(events).collect();
    Trace { packet }.encode_to_vec()
}

/// The order of the events of one time: a state ends before the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    End,
    /// A state without a duration.
    Passing,
    Begin,
    Moment,
}

/// The tracks of a trace, by their names. Their ids are their numbers, from 1.
#[derive(Default)]
struct Tracks {
    packets: Vec<TracePacket>,
    kinds: BTreeMap<ActorKind, u64>,
    charts: BTreeMap<String, u64>,
    actors: BTreeMap<String, u64>,
    /// The tracks of each actor's states, by their class.
    classes: BTreeMap<String, BTreeMap<SpanClass, u64>>,
}

impl Tracks {
    fn add(&mut self, name: &str, parent: Option<u64>, counts: bool) -> u64 {
        let uuid = self.packets.len() as u64 + 1;
        self.packets.push(TracePacket {
            timestamp: None,
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: None,
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.to_owned()),
                parent_uuid: parent,
                counter: counts.then(CounterDescriptor::default),
            }),
        });
        uuid
    }

    /// A parent may appear after its child, so the ids of all actors are known before the first track is written.
    fn add_actors(&mut self, record: &RunRecord) {
        for actor in &record.actors {
            if !self.kinds.contains_key(&actor.kind) {
                let track = self.add(&word(&actor.kind), None, false);
                self.kinds.insert(actor.kind, track);
            }
            let kind = self.kinds.get(&actor.kind).copied();
            let track = self.add(&actor.name, kind, false);
            self.actors.insert(actor.id.clone(), track);
        }
        for actor in &record.actors {
            let parent = actor.parent.as_ref().and_then(|parent| self.of_actor(parent));
            let (Some(parent), Some(track)) = (parent, self.of_actor(&actor.id)) else {
                continue;
            };
            let packet = usize::try_from(track - 1).ok().and_then(|at| self.packets.get_mut(at));
            if let Some(descriptor) = packet.and_then(|packet| packet.track_descriptor.as_mut()) {
                descriptor.parent_uuid = Some(parent);
            }
        }
    }

    fn add_counter(&mut self, chart: &str, name: &str) -> u64 {
        let parent = match self.charts.get(chart) {
            Some(track) => *track,
            None => {
                let track = self.add(chart, None, false);
                self.charts.insert(chart.to_owned(), track);
                track
            }
        };
        self.add(name, Some(parent), true)
    }

    /// The track of a state. The slices of a track must nest, so the states of a second class, such as the leadership of a
    /// process, have their own one below that of the actor.
    fn of_span(&mut self, span: &Span) -> Option<u64> {
        let actor = self.of_actor(&span.actor)?;
        let known = self.classes.entry(span.actor.clone()).or_default();
        if let Some(track) = known.get(&span.class) {
            return Some(*track);
        }
        let is_first = known.is_empty();
        let track = match is_first {
            true => actor,
            false => self.add(&word(&span.class), Some(actor), false),
        };
        self.classes
            .entry(span.actor.clone())
            .or_default()
            .insert(span.class, track);
        Some(track)
    }

    fn of_actor(&self, id: &str) -> Option<u64> {
        self.actors.get(id).copied()
    }
}

fn event(kind: EventType, track: u64) -> TrackEvent {
    TrackEvent {
        kind: Some(kind.into()),
        track_uuid: Some(track),
        ..TrackEvent::default()
    }
}

/// The begin and the end of a state; a state without a duration is a moment, because its end would end the next one.
fn slice(record: &RunRecord, span: &Span, track: u64) -> Vec<(Micros, Order, TrackEvent)> {
    let end = span.to.unwrap_or(record.meta.lasted);
    let named = |kind| TrackEvent {
        name: Some(span.label.clone()),
        categories: vec![word(&span.class)],
        ..event(kind, track)
    };
    if end <= span.from {
        return vec![(span.from, Order::Passing, named(EventType::Instant))];
    }
    vec![
        (span.from, Order::Begin, named(EventType::SliceBegin)),
        (end, Order::End, event(EventType::SliceEnd, track)),
    ]
}

/// The ids of the arrows of each event. An arrow has the number of its effect.
fn flows(points: &[Point]) -> BTreeMap<u32, Vec<u64>> {
    let mut flows: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for point in points {
        if let Some(cause) = point.cause {
            for end in [cause, point.number] {
                flows.entry(end).or_default().push(point.number.into());
            }
        }
    }
    flows
}

fn moment(point: &Point, track: u64, flows: Option<&Vec<u64>>) -> TrackEvent {
    let details = [
        ("number", Some(point.number.to_string())),
        ("object", point.object.clone()),
        ("by", point.by.clone()),
        ("code", point.code.clone()),
        ("fault", point.fault.clone()),
        ("change", point.diff.as_ref().map(ToString::to_string)),
    ];
    let annotation = |(name, value): (&str, Option<String>)| {
        value.map(|value| DebugAnnotation {
            name: Some(name.to_owned()),
            string_value: Some(value),
        })
    };
    TrackEvent {
        name: Some(point.summary.clone()),
        categories: vec![word(&point.verb)],
        debug_annotations: details.into_iter().filter_map(annotation).collect(),
        flow_ids: flows.cloned().unwrap_or_default(),
        ..event(EventType::Instant, track)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    fn trace() -> Trace {
        Trace::decode(&*perfetto(&record())).unwrap()
    }

    fn descriptors(trace: &Trace) -> Vec<(String, Option<String>)> {
        let all = || {
            trace
                .packet
                .iter()
                .filter_map(|packet| packet.track_descriptor.as_ref())
        };
        let name = |uuid| all().find(|it| it.uuid == Some(uuid)).and_then(|it| it.name.clone());
        all()
            .map(|it| (it.name.clone().unwrap(), it.parent_uuid.and_then(name)))
            .collect()
    }

    #[test]
    fn actors_are_tracks_below_their_parents_or_kinds() {
        let tracks = descriptors(&trace());
        let has = |name: &str, parent: &str| tracks.contains(&(name.to_owned(), Some(parent.to_owned())));
        assert!(has("m-1", "machine") && has("vm-1", "m-1") && has("machines Running", "machines by phase"));
    }

    /// The events of a track as letters: begin and end of a slice, and moments.
    fn letters(trace: &Trace, name: &str) -> String {
        let track = trace
            .packet
            .iter()
            .filter_map(|packet| packet.track_descriptor.as_ref());
        let track = track.clone().find(|it| it.name.as_deref() == Some(name)).unwrap().uuid;
        let events = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref());
        let events = events.filter(|event| event.track_uuid == track);
        events
            .map(|event| match event.kind() {
                EventType::SliceBegin => '(',
                EventType::SliceEnd => ')',
                EventType::Instant => '.',
                EventType::Counter => '#',
                EventType::Unspecified => '?',
            })
            .collect()
    }

    #[test]
    fn slices_of_a_track_follow_each_other_and_end_with_the_run() {
        let trace = trace();
        assert_eq!(letters(&trace, "m-1"), "(.)(.)");
        assert_eq!(letters(&trace, "vm-1"), ".(.)");
        assert_eq!(letters(&trace, "machines Running"), "##");
    }

    /// A leader that is killed loses its Lease later, so these states do not nest.
    #[test]
    fn states_of_two_classes_have_two_tracks() {
        let trace = trace();
        assert_eq!(letters(&trace, "mcm"), "()()");
        assert_eq!(letters(&trace, "leader"), "()");
        assert!(descriptors(&trace).contains(&("leader".to_owned(), Some("mcm".to_owned()))));
    }

    #[test]
    fn times_ascend() {
        let times: Vec<u64> = trace().packet.iter().filter_map(|packet| packet.timestamp).collect();
        assert!(times.is_sorted() && times.len() > 5, "{times:?}");
    }

    #[test]
    fn an_arrow_connects_a_cause_with_its_effect() {
        let trace = trace();
        let events = trace.packet.iter().filter_map(|packet| packet.track_event.as_ref());
        let ends: Vec<_> = events
            .filter(|event| event.flow_ids.contains(&2))
            .map(|event| event.name.clone().unwrap())
            .collect();
        assert_eq!(ends, ["Machine m-1 is created", "CreateMachine: OK"]);
    }
}
