// Charts of numbers over time, on the time axis of the timeline.

import { byId, element, fill, prepared } from "./dom.js";
import { drawFaults, drawFolds } from "./draw.js";

/** The space to the left of the time axis: the width of the labels of the timeline. */
export const LEFT = 150;
/** The space at both ends of the time axis, for the marks of the first and the last event. */
const PADDING = 8;
/** The height of a chart. */
const CHART_HEIGHT = 48;
/** The dashes of lines; the first one is solid. */
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [4, 4], [10, 4], [3, 6]];
/** The variables of the style sheet for lines with a meaning, which are those of the timeline, and for others. */
const MEANINGS = { Running: "--good", "Ready nodes": "--good", answered: "--good", Pending: "--warn", Failed: "--bad", failed: "--bad", Unknown: "--unknown", Terminating: "--ending", new: "--muted" };
/** The lines that are solid. */
const SOLID = ["Running", "Ready nodes", "answered"];
const OTHERS = ["--accent", "--text", "--muted"];

/** The color and the dashes of a line. */
function lineOf(counter, number) {
	const dash = SOLID.includes(counter.name) ? DASHES[0] : DASHES[1 + (number % (DASHES.length - 1))];
	return { variable: MEANINGS[counter.name] ?? OTHERS[number % OTHERS.length], dash };
}

/**
 * The position of a place of the axis on a canvas of that width.
 * @param {import("./state.js").State} state
 * @returns {(place: number) => number}
 */
export function axisX(state, width) {
	const inner = width - LEFT - 2 * PADDING;
	return (place) => LEFT + PADDING + ((place - state.from) / (state.to - state.from)) * inner;
}

/** The part of the visible axis at a position, from 0 to 1. */
export function axisPart(x, width) {
	return Math.min(1, Math.max(0, (x - LEFT - PADDING) / (width - LEFT - 2 * PADDING)));
}

/**
 * Creates the charts of a record.
 * @param {import("./state.js").State} state
 * @param {import("./palette.js").Colors} colors
 * @returns {() => void} draws them
 */
export function charts(state, colors) {
	let { record } = state.index;
	let drawings = figures(state, colors);
	return () => {
		if (record !== state.index.record) {
			record = state.index.record;
			drawings = figures(state, colors);
		}
		drawings.forEach((draw) => draw());
	};
}

/** A figure for each chart of the record; the results draw them. */
function figures(state, colors) {
	const byChart = new Map();
	for (const counter of state.index.record.counters) {
		if (!byChart.has(counter.chart)) byChart.set(counter.chart, []);
		byChart.get(counter.chart).push(counter);
	}
	const made = [...byChart].map(([name, counters]) => {
		const shown = counters.slice(0, DASHES.length - 1);
		const rest = counters.length - shown.length;
		const keys = shown.map((counter, number) => {
			const key = element("span", { class: "key" }, counter.name);
			const { variable, dash } = lineOf(counter, number);
			key.style.setProperty("--color", `var(${variable})`);
			key.style.setProperty("--dash", dash.length === 0 ? "solid" : dash[0] < 4 ? "dotted" : "dashed");
			return key;
		});
		const canvas = element("canvas", { height: CHART_HEIGHT, role: "img", "aria-label": `Chart: ${name}` });
		const most = shown.flatMap((counter) => counter.steps).reduce((highest, step) => Math.max(highest, step.value), 1);
		const figure = element("figure", { role: "group", "aria-label": name }, element("figcaption", {}, element("b", {}, name), `highest ${most}`, ...keys, rest > 0 ? `and ${rest} more` : null), canvas);
		return { figure, draw: () => drawChart(canvas, shown, most, state, colors) };
	});
	const box = byId("charts");
	const wasOpen = box.querySelector("details")?.open ?? true;
	fill(box, element("details", { open: wasOpen, ontoggle: () => state.changed() }, element("summary", {}, "Charts"), ...made.map((one) => one.figure)));
	return made.map((one) => one.draw);
}

function drawChart(canvas, counters, most, state, colors) {
	// As wide as the timeline, which has a scroll bar beside it; the border counts.
	canvas.style.width = `${byId("lanes").clientWidth + 2}px`;
	const { context, width, height } = prepared(canvas, CHART_HEIGHT);
	const inner = width - LEFT;
	const x = axisX(state, width);
	const y = (value) => height - 4 - (value / most) * (height - 10);
	context.save();
	context.beginPath();
	context.rect(LEFT, 0, inner, height);
	context.clip();
	drawFaults(context, colors, state, x, LEFT, inner, height);
	drawFolds(context, colors, state.scale, x, height, false);
	counters.forEach((counter, number) => {
		const { variable, dash } = lineOf(counter, number);
		context.strokeStyle = colors.get(variable);
		context.setLineDash(dash);
		context.lineWidth = 1.6;
		context.beginPath();
		context.moveTo(x(0), y(0));
		let value = 0;
		for (const { at, value: next, point } of counter.steps) {
			const changed = state.index.byNumber.get(point);
			const step = x(changed ? state.scale.placeOf(changed) : state.scale.placeAfter(at));
			context.lineTo(step, y(value));
			context.lineTo(step, y(next));
			value = next;
		}
		context.lineTo(x(1), y(value));
		context.stroke();
	});
	context.restore();
	context.fillStyle = colors.get("--muted");
	context.font = "10.5px system-ui, sans-serif";
	context.textBaseline = "top";
	context.textAlign = "right";
	context.fillText(String(most), LEFT - 6, 3);
	context.fillText("0", LEFT - 6, height - 14);
	context.textAlign = "left";
}
