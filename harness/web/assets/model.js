// What the topology shows: the entities of the server, joined to one tile for each VM or node.

/**
 * @typedef {{id: string, kind: string, name: string, state: string, parent?: string, zone?: string, uid?: string, machine?: string,
 *   node?: string, pods?: {running: number, pending: number, failed: number}}} Entity
 */
/** @typedef {{key: string, zone: string, machine?: Entity, vm?: Entity, node?: Entity, stray?: string, state: string, bad: boolean}} Tile */

/** States in which nothing is wrong, or will soon be right. */
const GOOD = new Set(["Running", "Ready", "running", "pending", "Pending", "new", "InPlaceUpdating", "Running:Preserved"]);
/** The zone of machines without a VM. */
const NO_ZONE = "no VM yet";

/** The entities by their ids. */
export class World {
	constructor() {
		/** @type {Map<string, Entity>} */
		this.entities = new Map();
		this.number = 0;
		/** @type {Tile[] | null} */
		this.known = null;
		/** @type {Map<string, number> | null} the numbers of the tiles by the ids of their entities */
		this.numbers = null;
	}

	/**
	 * Applies changes of the server.
	 * @param {{number: number, all: boolean, changed: Entity[], removed: string[]}} changes
	 */
	apply(changes) {
		const places = changes.all || changes.removed.length > 0 || changes.changed.some((entity) => !hasPlaceOf(entity, this.entities.get(entity.id)));
		if (changes.all) this.entities.clear();
		for (const entity of changes.changed) this.entities.set(entity.id, entity);
		for (const id of changes.removed) this.entities.delete(id);
		this.number = changes.number;
		if (places) this.known = this.numbers = null;
		else if (this.known) this.update(changes.changed);
	}

	/** Replaces the tiles of entities of which only the states are others. */
	update(changed) {
		const known = (this.known = [...this.known]);
		this.numbers ??= new Map(known.flatMap((tile, number) => [tile.vm, tile.node, tile.machine].filter(Boolean).map(({ id }) => [id, number])));
		for (const entity of changed) {
			const number = this.numbers.get(entity.id);
			if (number === undefined) continue;
			const { key, zone, machine, vm, node, stray } = { ...known[number], [entity.kind]: entity };
			known[number] = tile(key, zone, machine, vm, node, stray);
		}
	}

	/**
	 * The entities of a kind.
	 * @returns {Entity[]}
	 */
	of(kind) {
		return [...this.entities.values()].filter((entity) => entity.kind === kind);
	}

	/**
	 * The owners of an entity, the nearest first.
	 * @param {Entity | undefined} entity
	 * @returns {Entity[]}
	 */
	owners(entity) {
		const owners = [];
		for (let at = this.entities.get(entity?.parent ?? ""); at && owners.length < 8; at = this.entities.get(at.parent ?? "")) owners.push(at);
		return owners;
	}

	/** @returns {Tile[]} by zone and name */
	tiles() {
		this.known ??= joined(this);
		return this.known;
	}
}

function joined(world) {
	const [machines, byName, nodes] = [new Map(), new Map(), new Map()];
	for (const entity of world.entities.values()) {
		if (entity.kind === "machine") {
			machines.set(entity.uid || entity.id, entity);
			byName.set(entity.name, entity);
		}
		if (entity.kind === "node") nodes.set(entity.name, entity);
	}
	/** @type {Tile[]} */
	const tiles = [];
	for (const vm of world.entities.values()) {
		if (vm.kind !== "vm") continue;
		// A VM without a uid names its machine only.
		const machine = machines.get(vm.uid) ?? (vm.uid ? undefined : byName.get(vm.machine));
		const node = nodes.get(vm.node);
		// The machine does not exist, or has another VM.
		const stray = !machine && (vm.uid || vm.machine) ? "no machine" : undefined;
		tiles.push(tile(vm.id, vm.zone || "unknown", machine, vm, node, stray));
		if (machine) {
			machines.delete(machine.uid || machine.id);
			byName.delete(machine.name);
		}
		if (node) nodes.delete(vm.node);
	}
	for (const node of nodes.values()) tiles.push(tile(node.id, node.zone || "other nodes", undefined, undefined, node));
	for (const machine of machines.values()) tiles.push(tile(machine.id, NO_ZONE, machine, undefined, undefined));
	return tiles.sort((one, other) => compared(one.zone, other.zone) || compared(nameOf(one), nameOf(other)));
}

/** Whether two versions of an entity belong to the same tile. */
function hasPlaceOf(entity, before) {
	return before !== undefined && ["name", "zone", "uid", "machine", "node", "parent"].every((of) => entity[of] === before[of]);
}

function compared(one, other) {
	return one < other ? -1 : Number(one > other);
}

/**
 * The name of a tile.
 * @param {Tile} of
 */
export function nameOf(of) {
	return of.machine?.name ?? of.node?.name ?? of.vm?.name ?? "";
}

function tile(key, zone, machine, vm, node, stray) {
	// The worst of the three counts: a VM that does not run, a node that is not ready, the phase of the machine.
	const wrong = [vm, node, machine].find((entity) => entity && !GOOD.has(entity.state))?.state ?? stray;
	const state = wrong ?? (vm && vm.state !== "running" ? vm : (machine ?? node ?? vm)).state;
	return { key, zone, machine, vm, node, stray, state, bad: wrong !== undefined };
}

/**
 * A tile in words.
 * @param {Tile} of
 */
export function described(of) {
	const parts = [];
	if (of.machine) parts.push(`machine ${of.machine.name} is ${of.machine.state}`);
	if (of.vm) parts.push(`VM ${of.vm.name} is ${of.vm.state}`);
	if (of.node) parts.push(`node ${of.node.name} is ${of.node.state}`);
	const pods = of.node?.pods;
	if (pods) parts.push(`${pods.running} pods run, ${pods.pending} wait, ${pods.failed} failed`);
	return `${parts.join("; ")}; zone ${of.zone}`;
}
