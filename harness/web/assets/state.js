// What the page shows: the time range, the selected event, the search. Kept in the fragment of the URL, so that every view
// has a link.

import { indexed } from "./record.js";
import { Scale } from "./scale.js";
import { matches, parsed } from "./query.js";

/** The smallest visible part of the axis. */
const SMALLEST = 1e-6;

/** The state of the page, and its listeners. */
export class State {
	/** @param {import("./record.js").Index} index */
	constructor(index) {
		this.index = index;
		this.folded = true;
		this.from = 0;
		this.to = 1;
		this.search = "";
		/** @type {number | null} */
		this.selected = null;
		this.pods = false;
		/** Whether the record grows. */
		this.follows = false;
		/** @type {(() => void)[]} */
		this.listeners = [];
		this.rescale();
		this.filter();
	}

	rescale() {
		this.scale = new Scale(this.index, this.folded);
		/** The places of the events. */
		this.places = Float64Array.from(this.scale.places.values());
	}

	/**
	 * Continues with a newer record of the same session. The visible part keeps its times; if it reached the end, it still does.
	 * The selected event stays selected: an event that arrives late changes the numbers of those after it.
	 */
	replace(record) {
		const [from, to] = [this.scale.time(this.from), this.scale.time(this.to)];
		const atEnd = this.to > 1 - SMALLEST;
		const selected = this.index.byNumber.get(this.selected);
		Object.assign(this.index, indexed(record));
		if (selected) this.selected = this.index.points.find((point) => ["at", "actor", "summary"].every((of) => point[of] === selected[of]))?.number ?? null;
		this.rescale();
		this.searched = undefined;
		this.show(this.from > SMALLEST ? this.scale.place(from) : 0, atEnd ? 1 : this.scale.place(to));
	}

	/** Computes the events in the time range that match the search. */
	filter() {
		if (this.searched !== this.search) {
			this.searched = this.search;
			const terms = parsed(this.search);
			const found = this.index.points.filter((point) => matches(this.index, point, terms));
			/** @type {Set<number> | null} the numbers of the events that match the search; `null`: there is none */
			this.matching = terms.length === 0 ? null : new Set(found.map((point) => point.number));
		}
		const [from, to] = [this.from - SMALLEST, this.to + SMALLEST];
		const inRange = this.index.points.filter((_, number) => this.places[number] >= from && this.places[number] <= to);
		this.inRange = inRange.length;
		const { matching } = this;
		this.visible = matching === null ? inRange : inRange.filter((point) => matching.has(point.number));
	}

	/** @param {() => void} listener */
	onChange(listener) {
		this.listeners.push(listener);
	}

	/** Shows a change, once for all changes of one frame. */
	changed() {
		this.filter();
		if (this.scheduled) return;
		this.scheduled = true;
		requestAnimationFrame(() => {
			this.scheduled = false;
			for (const listener of this.listeners) listener();
			this.save();
		});
	}

	/** Chooses the visible part of the axis. */
	show(from, to) {
		const width = Math.min(1, Math.max(SMALLEST, to - from));
		this.from = Math.min(1 - width, Math.max(0, from));
		this.to = this.from + width;
		this.changed();
	}

	/** Zooms around a place of the visible part, from 0 to 1. */
	zoom(factor, around) {
		const width = this.to - this.from;
		const fixed = this.from + around * width;
		const next = Math.min(1, Math.max(SMALLEST, width * factor));
		this.show(fixed - around * next, fixed + (1 - around) * next);
	}

	/** Moves the visible part by a share of its width. */
	pan(share) {
		const by = share * (this.to - this.from);
		this.show(this.from + by, this.to + by);
	}

	/** @param {boolean} folded */
	fold(folded) {
		const [from, to] = [this.scale.time(this.from), this.scale.time(this.to)];
		this.folded = folded;
		this.rescale();
		this.show(this.scale.place(from), this.scale.place(to));
	}

	/**
	 * Selects an event, and moves the visible part to it.
	 * @param {number | null} number
	 */
	select(number) {
		this.selected = number;
		const point = number === null ? undefined : this.index.byNumber.get(number);
		if (point) {
			const place = this.scale.placeOf(point);
			const width = this.to - this.from;
			if (place < this.from || place > this.to) return this.show(place - width / 2, place + width / 2);
		}
		return this.changed();
	}

	/** @param {string} search */
	find(search) {
		this.search = search;
		this.changed();
	}

	save() {
		const parts = new URLSearchParams();
		if (this.selected !== null) parts.set("e", String(this.selected));
		if (this.from > 0 || this.to < 1) parts.set("r", `${this.from.toPrecision(8)},${this.to.toPrecision(8)}`);
		if (this.search) parts.set("q", this.search);
		if (!this.folded) parts.set("fold", "0");
		const fragment = parts.toString();
		if (fragment !== this.saved) {
			this.saved = fragment;
			history.replaceState(null, "", fragment ? `#${fragment}` : "#");
		}
	}

	/** Restores the view of a link. */
	restore() {
		const fragment = location.hash.slice(1);
		if (fragment === this.saved) return;
		this.saved = fragment;
		const parts = new URLSearchParams(fragment);
		this.folded = parts.get("fold") !== "0";
		this.rescale();
		this.search = parts.get("q") ?? "";
		const [from, to] = (parts.get("r") ?? "0,1").split(",").map(Number);
		const isRange = from >= 0 && to <= 1 && from < to;
		[this.from, this.to] = isRange ? [from, to] : [0, 1];
		const number = Number(parts.get("e"));
		// The event may be outside the range: a link shows both as they were.
		this.selected = this.index.byNumber.has(number) ? number : null;
		this.changed();
	}
}
