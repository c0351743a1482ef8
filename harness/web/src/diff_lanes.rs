//! The lanes of two runs above each other, as a picture (SVG).

use std::fmt::Write as _;

use record::{Actor, ActorKind, AlignedLane, Alignment, Places, Span, SpanClass};

use crate::escape::escaped;

/// The most lanes and the most states of a picture.
const MOST_LANES: usize = 60;
const MOST_SPANS: usize = 6_000;
/// The width of the picture and of the names in it, the height of a bar, and of a lane with two of them.
const WIDTH: f64 = 1200.0;
const NAMES: f64 = 210.0;
const BAR: f64 = 12.0;
const LANE: f64 = 30.0;
/// The height of the line of a process that leads.
const LEADS: f64 = 3.0;
/// The height above the first lane, for the mark of the first difference.
const TOP: f64 = 16.0;
/// The width of a letter in a bar.
const LETTER: f64 = 6.2;

/// The picture with its title.
pub(crate) fn of(alignment: &Alignment<'_>) -> String {
    let shown = &alignment.lanes[..alignment.lanes.len().min(MOST_LANES)];
    if shown.is_empty() || alignment.rows.is_empty() {
        return String::new();
    }
    let places = [alignment.places(0), alignment.places(1)];
    let scale = (WIDTH - NAMES) / real(alignment.rows.len());
    let mut bars = String::new();
    let mut spans = 0;
    for (index, lane) in shown.iter().enumerate() {
        let top = TOP + LANE * real(index);
        let _ = write!(
            bars,
            "<text x=\"0\" y=\"{:.0}\">{}</text>",
            top + BAR + 2.0,
            escaped(&shortened(&name(lane)))
        );
        for side in [0, 1] {
            spans += lane.spans[side].len();
            if spans > MOST_SPANS {
                break;
            }
            let y = top + real(side) * (BAR + 1.0);
            bars += &of_run(&lane.spans[side], &places[side], scale, y, ["A", "B"][side]);
        }
    }
    let height = TOP + LANE * real(shown.len());
    let mark = match alignment.agreed < alignment.rows.len() {
        true => of_difference(NAMES + scale * real(alignment.agreed), height),
        false => String::new(),
    };
    let hidden = alignment.lanes.len() - shown.len();
    let left_out = match (hidden, spans > MOST_SPANS) {
        (0, false) => String::new(),
        (hidden, _) => {
            format!("<p class=\"note\">Left out: {hidden} lanes, and states after the first {MOST_SPANS}.</p>")
        }
    };
    format!(
        "<section aria-labelledby=\"lanes\"><h2 id=\"lanes\">Lanes</h2><p>Of each lane, A is above B. Equal events are above each \
         other, so that the axis shows events rather than times. The table below has the same events.</p>{left_out}\
         <div class=\"wrap\"><svg class=\"lanes\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Lanes of both runs\">\
         {PATTERNS}{bars}{mark}</svg></div></section>\n"
    )
}

/// The patterns of bad and of ending states: a color is never the only sign.
const PATTERNS: &str = "<defs><pattern id=\"rising\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 6L6 0\"/></pattern>\
     <pattern id=\"falling\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 0L6 6\"/></pattern></defs>";

/// The line of the first difference.
fn of_difference(x: f64, height: f64) -> String {
    let (anchor, gap) = if x > WIDTH - 110.0 {
        ("end", -4.0)
    } else {
        ("start", 4.0)
    };
    format!(
        "<g class=\"first\"><path d=\"M{x:.1} 0V{height:.0}\"/><text x=\"{:.1}\" y=\"11\" text-anchor=\"{anchor}\">▲ first difference</text></g>",
        x + gap
    )
}

/// The bars of one run in a lane.
fn of_run(spans: &[&Span], places: &Places<'_>, scale: f64, top: f64, letter: &str) -> String {
    let mut html = String::new();
    // That a process leads is a line over its state.
    let (leads, states): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.class == SpanClass::Leader);
    for span in states.into_iter().chain(leads) {
        let is_next =
            |other: &&&Span| other.class == span.class && other.from >= span.from && !std::ptr::eq(**other, span);
        let (from, to) = places.of_span(span, spans.iter().find(is_next).copied());
        let height = if span.class == SpanClass::Leader { LEADS } else { BAR };
        let y = top + BAR - height;
        let (x, width) = (NAMES + scale * from, (scale * (to - from)).max(1.5));
        let (variable, pattern) = style(span);
        let _ = write!(
            html,
            "<g><title>{letter}: {label}</title><rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{height}\" fill=\"var({variable})\"/>",
            label = escaped(&span.label)
        );
        if !pattern.is_empty() {
            let _ = write!(
                html,
                "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"url(#{pattern})\"/>"
            );
        }
        let text = format!("{letter} {}", span.label);
        // The color of a leader has too little contrast for a text.
        if span.class != SpanClass::Leader && real(text.chars().count()) * LETTER + 4.0 < width {
            let _ = write!(
                html,
                "<text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                x + 3.0,
                top + BAR - 2.5,
                escaped(&text)
            );
        }
        html += "</g>";
    }
    html
}

/// The variable of the style sheet and the pattern of a state.
fn style(span: &Span) -> (&'static str, &'static str) {
    match (span.class, span.label.as_str()) {
        (SpanClass::Fault, _) => ("--s-fault", "rising"),
        (SpanClass::Step, _) => ("--s-step", ""),
        (SpanClass::Leader, _) => ("--s-leader", ""),
        (_, "Pending" | "pending" | "InPlaceUpdating") => ("--s-pending", ""),
        (_, "Running" | "running" | "Ready" | "Available") => ("--s-running", ""),
        (_, "Unknown") => ("--s-unknown", "falling"),
        (_, "Failed" | "NotReady" | "CrashLoopBackOff") => ("--s-failed", "rising"),
        (_, "Terminating" | "stopping") => ("--s-terminating", "falling"),
        (_, "stopped" | "terminated" | "Succeeded") => ("--s-stopped", "falling"),
        (_, "down") => ("--s-down", "rising"),
        _ => ("--s-new", ""),
    }
}

/// The name of a lane: of both runs, if they differ.
fn name(lane: &AlignedLane<'_>) -> String {
    let [one, other] = lane.actors.map(|actor| actor.map(of_actor));
    match (one, other) {
        (Some(one), Some(other)) if one == other => one,
        (Some(one), Some(other)) => format!("{one} | {other}"),
        (Some(one), None) => format!("{one} (only A)"),
        (None, Some(other)) => format!("{other} (only B)"),
        (None, None) => String::new(),
    }
}

/// The name of an actor. A node and a pod can have the name of a machine.
fn of_actor(actor: &Actor) -> String {
    match actor.kind {
        ActorKind::Node => format!("node {}", actor.name),
        ActorKind::Pod => format!("pod {}", actor.name),
        _ => actor.name.clone(),
    }
}

/// A name that fits before its lane.
fn shortened(name: &str) -> String {
    const MOST: usize = 34;
    match name.chars().count() {
        0..=MOST => name.to_owned(),
        _ => name.chars().take(MOST - 1).chain(['…']).collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "places of a picture")]
fn real(number: usize) -> f64 {
    number as f64
}
