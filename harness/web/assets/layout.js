// The rows of the timeline: what happens, processes and faults first, then the machines of each zone.

/** @typedef {{id: string, height: number, classes: string[]}} Bar */
/** @typedef {{heading?: string, label: string, title: string, bars: Bar[], actors: string[], y: number, height: number}} Row */

/** The heights of a row's parts. */
const HEADING = 22;
const BAR = 20;
const THIN = 7;
const GAP = 5;

/** @returns {Bar} */
const bar = (id, height, ...classes) => ({ id, height, classes });

/** The children of each actor. */
function childrenOf(index) {
	const children = new Map();
	for (const actor of index.actors.values()) {
		if (actor.parent === undefined) continue;
		if (!children.has(actor.parent)) children.set(actor.parent, []);
		children.get(actor.parent).push(actor);
	}
	return children;
}

/**
 * All rows with their places.
 * @param {import("./record.js").Index} index
 * @param {boolean} pods whether pods have rows of their own
 * @returns {{rows: Row[], height: number, pinned: number}} with the height of the rows of processes and faults
 */
export function laidOut(index, pods) {
	const children = childrenOf(index);
	const of = (kind) => [...index.actors.values()].filter((actor) => actor.kind === kind);
	/** @type {Row[]} */
	const rows = [];
	const heading = (text) => rows.push({ heading: text, label: text, title: text, bars: [], actors: [], y: 0, height: HEADING });
	const row = (label, title, bars, actors) => {
		const height = bars.reduce((sum, bar) => sum + bar.height + 1, 0) + GAP;
		rows.push({ label, title, bars, actors, y: 0, height });
	};
	const simple = (actor, kind) => row(actor.name, actor.name, [bar(actor.id, BAR, kind)], [actor.id]);

	heading("Scenario, processes and faults");
	for (const actor of of("scenario")) simple(actor, "step");
	const isShown = (actor) => index.spans.has(actor.id) || index.byActor.has(actor.id);
	for (const actor of of("process").filter(isShown)) {
		const bars = [bar(actor.id, BAR, "process"), bar(actor.id, THIN - 3, "leader")];
		row(actor.name, `process ${actor.name}`, bars, [actor.id]);
	}
	for (const actor of of("fault")) simple(actor, "fault");
	for (const actor of of("cloud")) row("cloud", "calls of the cloud that are not about a machine", [bar(actor.id, BAR)], [actor.id]);

	const first = rows.length;
	const machineRow = (machine) => {
		const below = children.get(machine.id) ?? [];
		const bars = [bar(machine.id, BAR, "phase")];
		if (index.spans.get(machine.id)?.some((span) => span.class === "drain")) bars.push(bar(machine.id, THIN, "drain"));
		for (const kind of ["vm", "node"]) {
			for (const actor of below.filter((child) => child.kind === kind)) bars.push(bar(actor.id, THIN, kind));
		}
		const parent = index.actors.get(machine.parent ?? "");
		row(machine.name, `machine ${machine.name}${parent ? ` of set ${parent.name}` : ""}, with its VMs and its node`, bars, [...new Set(bars.map((bar) => bar.id))]);
		if (!pods) return;
		const nodes = below.filter((child) => child.kind === "node");
		for (const node of nodes) for (const pod of children.get(node.id) ?? []) podRow(pod);
	};
	const podRow = (pod) => row(`  ${pod.name}`, `pod ${pod.name}`, [bar(pod.id, THIN + 3, "phase")], [pod.id]);

	const machines = of("machine");
	const zones = of("zone").sort((one, other) => (one.name < other.name ? -1 : 1));
	for (const zone of zones) {
		heading(`Zone ${zone.name}: machines with VM and node`);
		machines.filter((machine) => machine.zone === zone.id).forEach(machineRow);
		const alone = of("vm").filter((vm) => vm.zone === zone.id && vm.parent === undefined);
		for (const vm of alone) row(vm.name, `VM ${vm.name} without a machine`, [bar(vm.id, THIN + 3, "vm")], [vm.id]);
	}
	const withoutVm = machines.filter((machine) => machine.zone === undefined);
	if (withoutVm.length > 0) heading(zones.length > 0 ? "Machines without a VM" : "Machines");
	withoutVm.forEach(machineRow);
	const withoutMachine = of("node").filter((node) => node.parent === undefined);
	if (withoutMachine.length > 0) heading("Nodes of other clouds");
	for (const node of withoutMachine) row(node.name, `node ${node.name}`, [bar(node.id, THIN + 3, "node")], [node.id]);
	const pools = [...of("deployment"), ...of("set")];
	if (pools.length > 0) heading("Deployments and sets");
	for (const actor of pools) row(actor.name, `${actor.kind} ${actor.name}`, [bar(actor.id, BAR)], [actor.id]);
	const withoutNode = pods ? of("pod").filter((pod) => pod.parent === undefined) : of("pod");
	const others = of("object");
	if (withoutNode.length + others.length > 0) heading("Pods and other objects");
	if (pods) withoutNode.forEach(podRow);
	else if (withoutNode.length > 0) row(`pods (${withoutNode.length})`, "all pods; the button `Pods` shows them one by one", [bar("pods", BAR)], withoutNode.map((pod) => pod.id));
	if (others.length > 0) row(`others (${others.length})`, "all other objects", [bar("others", BAR)], others.map((actor) => actor.id));

	let y = 0;
	for (const placed of rows) {
		placed.y = y;
		y += placed.height;
	}
	return { rows, height: y, pinned: rows[first]?.y ?? 0 };
}
