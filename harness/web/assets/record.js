// Decodes the record in the page, and indexes it.

/** @typedef {{id: string, kind: string, name: string, parent?: string, zone?: string}} Actor */
/** @typedef {{actor: string, from: number, to?: number, label: string, class: string, cause?: number}} Span */
/**
 * @typedef {{number: number, at: number, actor: string, verb: string, summary: string, object?: string, revision?: number,
 *   by?: string, cause?: number, previous?: number, incomplete?: boolean, diff?: any, cut?: boolean, code?: string,
 *   fault?: string, violates?: number, step?: number, link?: string, seen?: number[], call?: string}} Point
 */
/**
 * @typedef {{record: any, actors: Map<string, Actor>, points: Point[], byNumber: Map<number, Point>,
 *   byActor: Map<string, Point[]>, spans: Map<string, Span[]>, faults: Span[], effects: Map<number, Point[]>,
 *   writes: Map<string, Point[]>, violations: Point[], named: Set<string | undefined>, lasted: number, next: Map<Span, Span>,
 *   lastAt: (actor: string, time: number) => Point | undefined}} Index
 */

/** The newest version of the format that the page shows. */
const NEWEST_VERSION = 1;

/**
 * Decodes a record: gzip in Base64.
 * @returns {Promise<any>}
 */
export async function decode(text) {
	const packed = Uint8Array.fromBase64?.(text.trim()) ?? Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
	const record = await new Response(stream).json();
	if (!(record.version <= NEWEST_VERSION)) throw new Error(`The record has version ${record.version}, and this page shows up to ${NEWEST_VERSION}`);
	return record;
}

/** Adds a value to the list of a key. */
function addTo(map, key, value) {
	const list = map.get(key);
	if (list) list.push(value);
	else map.set(key, [value]);
}

/** @returns {Index} */
export function indexed(record) {
	const index = {
		record,
		actors: new Map(record.actors.map((actor) => [actor.id, actor])),
		points: record.points,
		byNumber: new Map(record.points.map((point) => [point.number, point])),
		byActor: new Map(),
		spans: new Map(),
		faults: record.spans.filter((span) => span.class === "fault"),
		effects: new Map(),
		writes: new Map(),
		/** The actors that violations are about. */
		named: new Set(),
		violations: record.points.filter((point) => point.violates !== undefined),
		lasted: Math.max(1, record.meta.lasted),
		/** The next state of the same actor and kind. */
		next: new Map(),
		/** The last event of an actor at a time. */
		lastAt: (actor, time) => (index.byActor.get(actor) ?? []).findLast((point) => point.at === time),
	};
	const latest = new Map();
	for (const span of record.spans) {
		const key = `${span.class} ${span.actor}`;
		if (latest.has(key)) index.next.set(latest.get(key), span);
		latest.set(key, span);
	}
	for (const point of record.points) {
		addTo(index.byActor, point.actor, point);
		if (point.cause !== undefined) addTo(index.effects, point.cause, point);
		if (point.object !== undefined) addTo(index.writes, point.object, point);
	}
	for (const span of record.spans) addTo(index.spans, span.actor, span);
	for (const point of index.violations) for (const number of [point.cause, ...(point.seen ?? [])]) index.named.add(index.byNumber.get(number)?.actor);
	const verdict = index.byNumber.get(record.meta.verdict.point);
	if (verdict && !index.violations.includes(verdict)) index.violations.push(verdict);
	return index;
}

/** Whether a call or a request failed. That a VM does not exist before its creation is no failure. */
export function isFailure(point) {
	return point.code !== undefined && point.code !== "OK" && !(point.call === "GetMachineStatus" && point.code === "NotFound");
}

/** The begin of the fault that changed a call, or the first event of that fault. */
export function beginOfFault(index, point) {
	const all = index.byActor.get(`fault/${point.fault}`) ?? [];
	return all.findLast((other) => other.number < point.number) ?? all[0];
}

/**
 * The name of an actor for people: its kind and its name.
 * @param {Index} index
 */
export function actorName(index, id) {
	const actor = index.actors.get(id);
	if (!actor) return id;
	if (["scenario", "cloud", "object", "vm"].includes(actor.kind)) return actor.name;
	return `${actor.kind} ${actor.name}`;
}
