// The axis: from a time, an event or a state of the run to a place between 0 and 1.
//
// By true time, a simulated run is blank for hours, and a hundred events share one moment. Folded, long gaps become short,
// and the events of one moment stand side by side.

/** The share of the axis that one stretch without events may take when idle time is folded. */
const LARGEST_GAP = 0.03;
/** Gaps up to this length, in microseconds, are not marked. */
const SHORT = 1e6;

/** The longest length of a gap, so that no gap takes more than its share. */
function limitOfGaps(gaps) {
	const share = Math.max(LARGEST_GAP, 2 / Math.max(1, gaps.length));
	let limit = gaps.reduce((most, gap) => Math.max(most, gap), 1);
	for (let round = 0, before = 0; round < 40 && limit !== before; round++) {
		before = limit;
		let sum = 0;
		for (const gap of gaps) sum += Math.min(gap, before);
		limit = share * sum;
	}
	return Math.max(1, limit);
}

/** An axis. */
export class Scale {
	/**
	 * @param {import("./record.js").Index} index
	 * @param {boolean} folded whether idle time is folded
	 */
	constructor(index, folded) {
		const { points, lasted, faults } = index;
		const ends = faults.flatMap((span) => (span.to === undefined ? [] : [span.to]));
		const all = new Float64Array([0, ...points.map((point) => point.at), ...ends, lasted]).sort();
		/** The times of events. */
		this.times = all.filter((time, number) => number === 0 || time > all[number - 1]);
		const count = this.times.length;
		const gaps = [];
		for (let number = 1; number < count; number++) gaps.push(this.times[number] - this.times[number - 1]);
		const limit = folded ? limitOfGaps(gaps) : Infinity;
		const inGaps = gaps.reduce((sum, gap) => sum + Math.min(gap, limit), 0);
		/** The width of an event. Folded, the events together take half of the axis. */
		this.slot = folded ? (inGaps || 1) / Math.max(1, points.length) : 0;
		const groups = Uint32Array.from(points, (point) => this.group(point.at));
		const perTime = new Uint32Array(count);
		/** The position of each event among those of its time. */
		const positions = groups.map((group) => perTime[group]++);
		/** Where the events of each time begin and end. */
		this.starts = new Float64Array(count);
		this.ends = new Float64Array(count);
		/** @type {{from: number, to: number, length: number}[]} folded gaps, by the places of their ends */
		this.folds = [];
		for (let number = 0; number < count; number++) {
			const gap = number === 0 ? 0 : gaps[number - 1];
			this.starts[number] = (number === 0 ? 0 : this.ends[number - 1]) + Math.min(gap, limit);
			this.ends[number] = this.starts[number] + perTime[number] * this.slot;
			// A gap that is only a little longer, or short anyway, is not worth a mark.
			if (gap > 2 * limit && gap > SHORT) this.folds.push({ from: this.ends[number - 1], to: this.starts[number], length: gap });
		}
		this.total = this.ends[count - 1] || 1;
		for (const fold of this.folds) {
			fold.from /= this.total;
			fold.to /= this.total;
		}
		/** @type {Map<number, number>} the place of each event by its number, in their order */
		this.places = new Map();
		points.forEach((point, at) => this.places.set(point.number, (this.starts[groups[at]] + (positions[at] + 0.5) * this.slot) / this.total));
		this.index = index;
		/** @type {Map<import("./record.js").Span, [number, number]>} the places of states that were asked for */
		this.spans = new Map();
	}

	/** The last time that is not after a time, by its number. */
	group(time) {
		return lastAtMost(this.times, time);
	}

	/** The place of a time: before the events of that time. */
	place(time) {
		const group = this.group(time);
		if (group + 1 >= this.times.length || time <= this.times[group]) return this.starts[group] / this.total;
		const part = (time - this.times[group]) / (this.times[group + 1] - this.times[group]);
		return (this.ends[group] + part * (this.starts[group + 1] - this.ends[group])) / this.total;
	}

	/** The place after the events of a time. */
	placeAfter(time) {
		const group = this.group(time);
		return time <= this.times[group] ? this.ends[group] / this.total : this.place(time);
	}

	/** The place of an event. */
	placeOf(point) {
		return this.places.get(point.number);
	}

	/**
	 * The places of the begin and the end of a state. They are those of the events that began and ended it, if these are
	 * known.
	 * @param {import("./record.js").Span} span
	 * @returns {[number, number]}
	 */
	placesOf(span) {
		let places = this.spans.get(span);
		if (places === undefined) {
			places = this.computed(span);
			this.spans.set(span, places);
		}
		return places;
	}

	/**
	 * @param {import("./record.js").Span} span
	 * @returns {[number, number]}
	 */
	computed(span) {
		const began = this.index.byNumber.get(span.cause);
		const from = began && began.at === span.from ? this.placeOf(began) : this.place(span.from);
		if (span.to === undefined) return [from, 1];
		const next = this.index.next.get(span);
		const ended = this.index.byNumber.get(next?.cause) ?? this.index.lastAt(span.actor, span.to);
		const to = ended && ended.at === span.to ? this.placeOf(ended) : this.place(span.to);
		return [from, Math.max(from, to)];
	}

	/** The time at a place. */
	time(place) {
		const at = place * this.total;
		const group = lastAtMost(this.starts, at);
		if (at <= this.ends[group] || group + 1 >= this.times.length) return this.times[group];
		const part = (at - this.ends[group]) / (this.starts[group + 1] - this.ends[group] || 1);
		return this.times[group] + part * (this.times[group + 1] - this.times[group]);
	}
}

/** The index of the last value that is at most a value, in an increasing list; 0 if there is none. */
function lastAtMost(list, value) {
	let [low, high] = [0, list.length];
	while (high - low > 1) {
		const middle = (low + high) >> 1;
		if (list[middle] <= value) low = middle;
		else high = middle;
	}
	return low;
}
