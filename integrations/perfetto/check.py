"""Reads a Perfetto trace with Perfetto's own schema: each field is known, and tracks, slices and flows fit together."""

import sys
from collections import Counter

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def unknown(message, path):
    """The fields of a message that the schema does not have."""
    for field in UnknownFieldSet(message):
        yield f"{path} has an unknown field {field.field_number}"
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_MESSAGE:
            for part in value if descriptor.is_repeated else [value]:
                yield from unknown(part, f"{path}.{descriptor.name}")


def problems(trace):
    """What is wrong with a trace."""
    yield from sorted(set(unknown(trace, "trace")))
    tracks = {packet.track_descriptor.uuid: packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")}
    for track in tracks.values():
        if not track.name:
            yield f"track {track.uuid} has no name"
        if track.HasField("parent_uuid") and track.parent_uuid not in tracks:
            yield f"the parent of track {track.name} is missing"
    open_slices, flows, kinds = Counter(), Counter(), Counter()
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        kinds[TrackEvent.Type.Name(event.type)] += 1
        flows.update(event.flow_ids)
        if not packet.trusted_packet_sequence_id:
            yield f"the event at {packet.timestamp} belongs to no sequence"
        if event.track_uuid not in tracks:
            yield f"the track of the event at {packet.timestamp} is missing"
        if event.type == TrackEvent.TYPE_COUNTER and not tracks[event.track_uuid].HasField("counter"):
            yield f"track {tracks[event.track_uuid].name} has a number, and is no counter"
        open_slices[event.track_uuid] += {TrackEvent.TYPE_SLICE_BEGIN: 1, TrackEvent.TYPE_SLICE_END: -1}.get(event.type, 0)
        if open_slices[event.track_uuid] < 0:
            yield f"track {tracks[event.track_uuid].name} ends a slice that did not begin"
    yield from (f"flow {flow} has only one event" for flow, count in flows.items() if count < 2)
    for kind in ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END", "TYPE_INSTANT", "TYPE_COUNTER"):
        if kinds[kind] == 0:
            yield f"there is no {kind}"
    print(f"{len(tracks)} tracks, {len(flows)} flows, {dict(kinds)}")


def main():
    with open(sys.argv[1], "rb") as file:
        trace = Trace.FromString(file.read())
    found = list(problems(trace))
    for problem in found:
        print(problem)
    sys.exit(1 if found else 0)


main()
