// Draws states, faults, folds and the time axis on a canvas.

import { duration, relative } from "./text.js";
import { styleOf } from "./palette.js";
import { isFailure } from "./record.js";

/** The narrowest state that has a label, in pixels. */
const LABELLED = 30;

/** A pattern of lines or dots in the color of the text. */
function drawPattern(context, pattern, x, y, width, height, color) {
	if (!pattern || width < 3) return;
	context.save();
	context.beginPath();
	context.rect(x, y, width, height);
	context.clip();
	context.globalAlpha = 0.28;
	context.strokeStyle = color;
	context.fillStyle = color;
	context.lineWidth = 1;
	context.beginPath();
	if (pattern === "dots") {
		for (let dx = 3; dx < width; dx += 7) context.rect(x + dx, y + height / 2 - 1, 2, 2);
		context.fill();
	} else {
		const lean = pattern === "rising" ? height : -height;
		for (let dx = -height; dx < width + height; dx += 7) {
			context.moveTo(x + dx, y + height);
			context.lineTo(x + dx + lean, y);
		}
		context.stroke();
	}
	context.restore();
}

/**
 * Draws a state.
 * @param {import("./palette.js").Colors} colors
 * @param {import("./record.js").Span} span
 */
export function drawSpan(context, colors, span, x, y, width, height) {
	const style = styleOf(span);
	const ink = colors.get("--ink");
	context.fillStyle = colors.get(style.variable);
	context.fillRect(x, y, Math.max(1, width), height);
	if (width > 2) {
		context.fillStyle = colors.get("--bg");
		context.fillRect(x + width - 1, y, 1, height);
	}
	drawPattern(context, style.pattern, x, y, width - 1, height, ink);
	if (height < 9) return;
	const text = width > LABELLED ? span.label : style.letter;
	if (!text || width < 9) return;
	context.save();
	context.beginPath();
	context.rect(x, y, width - 2, height);
	context.clip();
	context.fillStyle = ink;
	context.font = height > 12 ? "11px system-ui, sans-serif" : "9px system-ui, sans-serif";
	context.textBaseline = "middle";
	context.fillText(text, x + 3, height > 16 ? y + 7 : y + height / 2 + 0.5);
	context.restore();
}

/**
 * Shades the windows of all faults behind everything else.
 * @param {import("./palette.js").Colors} colors
 * @param {import("./state.js").State} state
 * @param {(place: number) => number} x
 */
export function drawFaults(context, colors, state, x, left, width, height) {
	const right = left + width;
	const windows = state.index.faults.map((span) => state.scale.placesOf(span).map(x)).sort((one, other) => one[0] - other[0]);
	context.fillStyle = colors.get("--band");
	// Windows that overlap are shaded once.
	let shaded = left;
	for (const [begin, end] of windows) {
		const from = Math.max(shaded, begin);
		const to = Math.min(right, Math.max(end, begin + 1));
		if (to <= from) continue;
		context.fillRect(from, 0, to - from, height);
		shaded = to;
	}
	context.fillStyle = colors.get("--band-edge");
	for (const [begin] of windows) if (begin >= left && begin < right) context.fillRect(begin, 0, 1, height);
}

/**
 * Marks folded idle time.
 * @param {import("./palette.js").Colors} colors
 * @param {import("./scale.js").Scale} scale
 * @param {(place: number) => number} x
 */
export function drawFolds(context, colors, scale, x, height, labels) {
	context.font = "10px system-ui, sans-serif";
	context.textBaseline = "alphabetic";
	for (const fold of scale.folds) {
		const [from, to] = [x(fold.from), x(fold.to)];
		if (to < 0 || to - from < 2) continue;
		const middle = (from + to) / 2;
		context.strokeStyle = colors.get("--gap");
		context.setLineDash([2, 3]);
		context.beginPath();
		context.moveTo(middle, 0);
		context.lineTo(middle, height);
		context.stroke();
		context.setLineDash([]);
		const text = duration(fold.length);
		if (labels && to - from > context.measureText(text).width + 4) {
			context.fillStyle = colors.get("--muted");
			context.textAlign = "center";
			context.fillText(text, middle, height - 4);
			context.textAlign = "left";
		}
	}
}

/**
 * Draws times along the upper edge.
 * @param {import("./palette.js").Colors} colors
 * @param {import("./state.js").State} state
 * @param {(place: number) => number} x
 */
export function drawAxis(context, colors, state, x, height) {
	context.font = "10.5px system-ui, sans-serif";
	context.textBaseline = "top";
	const count = Math.max(2, Math.floor((x(state.to) - x(state.from)) / 130));
	let before = "";
	for (let number = 0; number < count; number++) {
		const place = state.from + (number / count) * (state.to - state.from);
		const text = relative(state.scale.time(place));
		const at = Math.round(x(place));
		context.fillStyle = colors.get("--line");
		context.fillRect(at, 0, 1, height);
		context.fillStyle = colors.get("--muted");
		// Events of one moment stand side by side.
		context.fillText(text === before ? "same time" : text, at + 4, 4);
		before = text;
	}
}

/**
 * Draws an event: a mark, larger for violations.
 * @param {import("./palette.js").Colors} colors
 * @param {import("./record.js").Point} point
 * @param {{selected: boolean, dimmed: boolean}} how
 */
export function drawPoint(context, colors, point, x, y, how) {
	const failed = isFailure(point);
	context.globalAlpha = how.dimmed ? 0.2 : 1;
	context.fillStyle = colors.get(point.violates !== undefined || failed ? "--bad" : "--point");
	context.beginPath();
	if (point.violates !== undefined) {
		context.moveTo(x, y - 8);
		context.lineTo(x + 7, y + 6);
		context.lineTo(x - 7, y + 6);
	} else if (failed || point.verb === "fault") {
		context.moveTo(x, y - 4.5);
		context.lineTo(x + 4, y);
		context.lineTo(x, y + 4.5);
		context.lineTo(x - 4, y);
	} else if (point.verb === "call" || point.verb === "request") {
		context.rect(x - 2.5, y - 2.5, 5, 5);
	} else {
		context.arc(x, y, 2.4, 0, 7);
	}
	context.fill();
	if (how.selected) {
		context.strokeStyle = colors.get("--focus");
		context.lineWidth = 2;
		context.beginPath();
		context.arc(x, y, 8, 0, 7);
		context.stroke();
		context.lineWidth = 1;
	}
	context.globalAlpha = 1;
}
