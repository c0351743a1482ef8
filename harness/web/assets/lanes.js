// The timeline: a row for each process, fault and machine. Only the visible rows are drawn.

import { byId, element, prepared } from "./dom.js";
import { relative, shortened } from "./text.js";
import { LEFT, axisPart, axisX } from "./chart.js";
import { laidOut } from "./layout.js";
import { drawAxis, drawFaults, drawFolds, drawPoint, drawSpan } from "./draw.js";

/** The height of the time axis. */
const AXIS = 20;
/** How near the pointer must be to an event, in pixels. */
const NEAR = 8;
/** The share of the timeline that rows of processes and faults take at most when it scrolls. */
const PINNED = 0.4;

/** Where the events of a part of a row are: below its text. */
function middleOf(bar) {
	return bar.height > 16 ? bar.height - 5 : bar.height / 2;
}

/**
 * Shows the timeline, and follows the pointer on it.
 * @param {import("./state.js").State} state
 * @param {import("./palette.js").Colors} colors
 * @returns {() => void} draws it
 */
export function lanes(state, colors) {
	const [canvas, scroll, tip] = [byId("lanes"), byId("lanes-scroll"), byId("tip")];
	const { index } = state;
	const spacer = element("div", {});
	scroll.append(spacer);
	let layout = laidOut(index, state.pods);
	let withPods = state.pods;
	let { record } = index;
	/** @type {{x: number, y: number, point: import("./record.js").Point}[]} */
	let drawn = [];
	let [top, pinned] = [0, 0];
	/** @type {number | null} the selected event to whose row the timeline was scrolled */
	let revealed = null;

	function draw() {
		if (withPods !== state.pods || record !== index.record) {
			withPods = state.pods;
			record = index.record;
			layout = laidOut(index, withPods);
		}
		const full = layout.height + AXIS;
		const visible = Math.min(parseFloat(getComputedStyle(scroll).maxHeight), full);
		const { context, width, height } = prepared(canvas, visible);
		spacer.style.height = `${full - visible}px`;
		// The rows of processes and faults stay visible, as far as they leave space for others.
		const most = Math.min(layout.pinned, PINNED * visible);
		const last = layout.rows.findLast((row) => row.y + row.height <= most);
		pinned = last ? last.y + last.height : 0;
		top = scroll.scrollTop;
		if (state.selected !== revealed) {
			revealed = state.selected;
			reveal(visible);
			top = scroll.scrollTop;
		}
		const x = axisX(state, width);
		drawn = [];
		const split = pinned + AXIS;
		drawPart(context, x, width, split, height, false);
		if (pinned > 0) drawPart(context, x, width, AXIS, split, true);
		clipped(context, LEFT, AXIS, width, height, () => drawCauses(context, x));
		drawAxis(context, colors, state, x, AXIS);
	}

	/** Draws inside of a rectangle only. */
	function clipped(context, left, top, right, bottom, action) {
		context.save();
		context.beginPath();
		context.rect(left, top, right - left, bottom - top);
		context.clip();
		action();
		context.restore();
	}

	/** Where a row is on the canvas. */
	const topOf = (row) => row.y + AXIS - (row.y < pinned ? 0 : top);

	/** Draws the rows between two heights: those that stay, or the others. */
	function drawPart(context, x, width, from, to, stay) {
		const rows = layout.rows.filter((row) => row.y < pinned === stay && topOf(row) + row.height > from && topOf(row) < to);
		clipped(context, 0, from, width, to, () => {
			drawFaults(context, colors, state, x, LEFT, width - LEFT, to);
			for (const row of rows) drawRowBackground(context, row, topOf(row), width);
		});
		clipped(context, LEFT, from, width, to, () => {
			drawFolds(context, colors, state.scale, x, to, !stay);
			for (const row of rows) if (!row.heading) drawSpans(context, row, topOf(row), x, width);
			for (const row of rows) if (!row.heading) drawPoints(context, row, topOf(row), x, width);
		});
	}

	function drawRowBackground(context, row, y, width) {
		context.textBaseline = "middle";
		if (row.heading) {
			context.fillStyle = colors.get("--panel");
			context.fillRect(0, y, width, row.height - 1);
			context.fillStyle = colors.get("--text");
			context.font = "600 11.5px system-ui, sans-serif";
			context.fillText(row.heading, 8, y + row.height / 2);
			return;
		}
		context.fillStyle = colors.get("--line");
		context.fillRect(0, y + row.height - 1, width, 1);
		context.fillStyle = colors.get("--text");
		context.font = "12px system-ui, sans-serif";
		context.fillText(shortened(row.label, 22), 10, y + (row.height - 4) / 2, LEFT - 16);
	}

	function drawSpans(context, row, y, x, width) {
		let barY = y + 2;
		for (const bar of row.bars) {
			for (const span of index.spans.get(bar.id) ?? []) {
				if (!bar.classes.includes(span.class)) continue;
				const [begin, end] = state.scale.placesOf(span).map(x);
				const [from, to] = [Math.max(LEFT - 2, begin), Math.min(width + 2, end)];
				if (to < LEFT || from > width) continue;
				drawSpan(context, colors, span, from, barY, to - from, bar.height);
				if (span.class === "vm" && span.to === undefined && index.named.has(span.actor)) {
					context.strokeStyle = colors.get("--bad");
					context.strokeRect(from + 1, barY - 1, to - from - 3, bar.height + 2);
				}
			}
			barY += bar.height + 1;
		}
	}

	/** Draws the events of a row. Of several at one pixel, only the first ones are drawn. */
	function drawPoints(context, row, y, x, width) {
		const drawAt = (point, middle) => {
			const at = x(state.scale.placeOf(point));
			if (at < LEFT - NEAR || at > width + NEAR) return;
			const selected = point.number === state.selected;
			drawn.push({ x: at, y: middle, point });
			const column = Math.round(at * 2) + point.verb.length * 1e6;
			if (columns.has(column) && !selected && point.violates === undefined) return;
			columns.add(column);
			const dimmed = state.matching !== null && !state.matching.has(point.number);
			drawPoint(context, colors, point, at, middle, { selected, dimmed });
		};
		let barY = y + 2;
		let columns = new Set();
		const bars = new Map();
		for (const bar of row.bars) {
			if (!bars.has(bar.id)) bars.set(bar.id, barY + middleOf(bar));
			barY += bar.height + 1;
		}
		for (const actor of row.actors) {
			columns = new Set();
			const middle = bars.get(actor) ?? y + 2 + middleOf(row.bars[0]);
			for (const point of index.byActor.get(actor) ?? []) drawAt(point, middle);
		}
	}

	/** The row of an event. */
	const rowOf = (point) => layout.rows.find((row) => row.actors.includes(point?.actor));

	/** The place of an event's row; `null`: it has none. */
	function rowY(point) {
		const row = rowOf(point);
		return row ? topOf(row) + 2 + middleOf(row.bars[0]) : null;
	}

	/** Scrolls to the row of the selected event. */
	function reveal(visible) {
		const row = rowOf(index.byNumber.get(state.selected));
		if (!row || row.y < pinned) return;
		const y = topOf(row) + 10;
		const isVisible = y > pinned + AXIS + 10 && y < visible - 20;
		if (!isVisible) scroll.scrollTop = Math.max(0, row.y - visible * 0.6);
	}

	/** Draws an arrow from each cause of the selected event to its effect. */
	function drawCauses(context, x) {
		const selected = state.selected === null ? undefined : index.byNumber.get(state.selected);
		if (!selected) return;
		const pairs = (index.effects.get(selected.number) ?? []).slice(0, 30).map((effect) => [selected, effect]);
		for (let at = selected; at.cause !== undefined && pairs.length < 60; ) {
			const cause = index.byNumber.get(at.cause);
			if (!cause || pairs.some((pair) => pair[0] === cause)) break;
			pairs.push([cause, at]);
			at = cause;
		}
		context.strokeStyle = colors.get("--accent");
		context.fillStyle = colors.get("--accent");
		context.lineWidth = 1.5;
		for (const [from, to] of pairs) {
			// A solid arrow is a recorded cause; a dashed one only came before.
			context.setLineDash(to.link === "caused" ? [] : [5, 4]);
			const [fromY, toY] = [rowY(from), rowY(to)];
			if (fromY === null || toY === null) continue;
			const [fromX, toX] = [x(state.scale.placeOf(from)), x(state.scale.placeOf(to))];
			const bend = Math.max(14, Math.abs(toX - fromX) / 3);
			context.beginPath();
			context.moveTo(fromX, fromY);
			context.bezierCurveTo(fromX + bend, fromY, toX - bend, toY, toX - 4, toY);
			context.stroke();
			context.setLineDash([]);
			context.beginPath();
			context.moveTo(toX - 1, toY);
			context.lineTo(toX - 8, toY - 4);
			context.lineTo(toX - 8, toY + 4);
			context.fill();
		}
		context.lineWidth = 1;
	}

	const placeOf = (event) => {
		const box = canvas.getBoundingClientRect();
		return { x: event.clientX - box.left, y: event.clientY - box.top, width: box.width };
	};
	const nearest = (at) => {
		const near = drawn.filter((mark) => Math.abs(mark.x - at.x) <= NEAR && Math.abs(mark.y - at.y) <= NEAR + 2);
		const distance = (mark) => Math.abs(mark.x - at.x) + (mark.point.violates !== undefined ? -20 : 0);
		return near.sort((one, other) => distance(one) - distance(other))[0]?.point;
	};
	const spanAt = (at) => {
		const row = layout.rows.find((row) => at.y >= topOf(row) && at.y < topOf(row) + row.height);
		if (!row || row.heading) return undefined;
		if (at.x < LEFT) return row.title;
		const place = state.from + axisPart(at.x, at.width) * (state.to - state.from);
		const spans = row.bars.flatMap((bar) => (index.spans.get(bar.id) ?? []).filter((span) => bar.classes.includes(span.class)));
		const here = spans.filter((span) => {
			const [from, to] = state.scale.placesOf(span);
			return from <= place && place < to;
		});
		const texts = here.map((span) => `${index.actors.get(span.actor)?.name ?? ""}: ${span.label} since ${relative(span.from)}`);
		return texts.length > 0 ? texts.join("; ") : row.title;
	};

	/** @type {{x: number, from: number, to: number, moved: boolean} | null} */
	let drag = null;
	canvas.addEventListener("pointerdown", (event) => {
		drag = { x: placeOf(event).x, from: state.from, to: state.to, moved: false };
	});
	canvas.addEventListener("pointermove", (event) => {
		const at = placeOf(event);
		if (drag && event.buttons === 1 && (drag.moved || Math.abs(at.x - drag.x) > 4)) {
			if (!drag.moved) canvas.setPointerCapture(event.pointerId);
			drag.moved = true;
			tip.hidden = true;
			const by = ((drag.x - at.x) / (at.width - LEFT)) * (drag.to - drag.from);
			state.show(drag.from + by, drag.to + by);
			return;
		}
		const point = nearest(at);
		const text = point ? `${point.number}  ${relative(point.at)}  ${point.summary}` : spanAt(at);
		canvas.style.cursor = point ? "pointer" : "default";
		tip.hidden = text === undefined;
		if (text === undefined) return;
		tip.textContent = shortened(text, 260);
		tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 430)}px`;
		tip.style.top = `${Math.min(event.clientY + 16, innerHeight - 60)}px`;
	});
	canvas.addEventListener("pointerleave", () => {
		tip.hidden = true;
	});
	canvas.addEventListener("pointerup", (event) => {
		const point = drag && !drag.moved ? nearest(placeOf(event)) : undefined;
		if (point) state.select(point.number);
		drag = null;
	});
	canvas.addEventListener(
		"wheel",
		(event) => {
			if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
			event.preventDefault();
			const at = placeOf(event);
			state.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, axisPart(at.x, at.width));
		},
		{ passive: false },
	);
	scroll.addEventListener("scroll", draw);
	return draw;
}
