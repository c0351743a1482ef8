// The overview of the whole run: how much happens when, with a brush that chooses the time range.

import { byId, prepared } from "./dom.js";
import { drawFaults, drawFolds } from "./draw.js";
import { lastWrite } from "./activity.js";

/** The height of the overview, and the width of the edges of the brush that resize it. */
const OVERVIEW_HEIGHT = 56;
const EDGE = 7;

/**
 * Shows the overview, and follows the pointer on it.
 * @param {import("./state.js").State} state
 * @param {import("./palette.js").Colors} colors
 * @returns {() => void} draws it
 */
export function overview(state, colors) {
	const canvas = byId("overview");
	const { index } = state;

	let columns = new Uint32Array(1);
	let counted = null;

	/** Counts the events of each column, again only if the axis or the width changes. */
	function count(width) {
		const length = Math.max(1, Math.floor(width / 3));
		if (counted === state.scale && columns.length === length) return;
		counted = state.scale;
		columns = new Uint32Array(length);
		for (const place of state.places) columns[Math.min(length - 1, Math.floor(place * length))] += 1;
	}

	function draw() {
		const { context, width, height } = prepared(canvas, OVERVIEW_HEIGHT);
		const x = (place) => place * width;
		drawFaults(context, colors, state, x, 0, width, height);
		count(width);
		const most = Math.log1p(Math.max(1, ...columns));
		context.fillStyle = colors.get("--point");
		columns.forEach((count, column) => {
			const high = (Math.log1p(count) / most) * (height - 16);
			context.fillRect((column * width) / columns.length, height - high, Math.max(1, width / columns.length - 1), high);
		});
		const last = index.record.meta.verdict.passed ? undefined : lastWrite(index);
		if (last) {
			context.fillStyle = colors.get("--accent");
			context.fillRect(x(state.scale.placeOf(last)), 0, 2, height);
		}
		context.fillStyle = colors.get("--bad");
		for (const point of index.violations) {
			const at = x(state.scale.placeOf(point));
			context.fillRect(at - 1, 0, 2, height);
			context.beginPath();
			context.moveTo(at, 11);
			context.lineTo(at - 6, 0);
			context.lineTo(at + 6, 0);
			context.fill();
		}
		drawFolds(context, colors, state.scale, x, height, false);
		const [from, to] = [state.from * width, state.to * width];
		if (state.from > 0 || state.to < 1) {
			context.fillStyle = colors.get("--brush");
			context.fillRect(from, 0, to - from, height);
			context.fillStyle = colors.get("--accent");
			context.fillRect(from, 0, 2, height);
			context.fillRect(to - 2, 0, 2, height);
		}
	}

	/** @type {{kind: string, start: number, from: number, to: number} | null} */
	let drag = null;
	const place = (event) => {
		const box = canvas.getBoundingClientRect();
		return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
	};
	const kindAt = (at) => {
		const near = EDGE / canvas.clientWidth;
		if (state.from <= 0 && state.to >= 1) return "new";
		if (Math.abs(at - state.from) < near) return "from";
		if (Math.abs(at - state.to) < near) return "to";
		return at > state.from && at < state.to ? "move" : "new";
	};
	canvas.addEventListener("pointerdown", (event) => {
		const start = place(event);
		drag = { kind: kindAt(start), start, from: state.from, to: state.to };
		canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener("pointermove", (event) => {
		const at = place(event);
		if (!drag) {
			canvas.style.cursor = { new: "crosshair", from: "ew-resize", to: "ew-resize", move: "grab" }[kindAt(at)];
			return;
		}
		if (drag.kind === "new" && Math.abs(at - drag.start) * canvas.clientWidth < 3) return;
		if (drag.kind === "new") state.show(Math.min(at, drag.start), Math.max(at, drag.start));
		if (drag.kind === "from") state.show(Math.min(at, drag.to), Math.max(at, drag.to));
		if (drag.kind === "to") state.show(Math.min(drag.from, at), Math.max(drag.from, at));
		if (drag.kind === "move") state.show(drag.from + at - drag.start, drag.to + at - drag.start);
	});
	canvas.addEventListener("pointerup", () => {
		drag = null;
	});
	canvas.addEventListener("dblclick", () => state.show(0, 1));
	return draw;
}
