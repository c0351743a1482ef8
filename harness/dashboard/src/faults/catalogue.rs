//! All faults, as data. A fault that is a rule or a step of a scenario is one here by a line.

use serde::Serialize;
use serde_json::{Value, json};

/// What a fault acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Needs {
    /// Machines that have a VM.
    Machines,
    /// Zones of the cloud.
    Zones,
    /// Nothing: it acts on the world as a whole.
    Nothing,
}

/// How a fault is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// An action on a VM; `undo` ends it.
    Vm { undo: Option<&'static str> },
    /// The creation of a VM without a Machine.
    CreateVm,
    /// An action on a kubelet. The rule has its begin, `do`, and its end, `undo`, or null; the text has the name and the flags for
    /// `drydock nodes break`, or is empty if `drydock nodes repair` does the same.
    Kubelet(&'static str),
    /// A failure of a zone.
    Zone,
    /// The restart of a process.
    Restart(&'static str),
    /// The pause of a process, which ends by itself.
    Pause(&'static str),
    /// The crash of a process before or after its next effect.
    Crash(&'static str, &'static str),
    /// A rule of the API server. One that hits a number of requests is a moment.
    Api,
    /// A rule of the cloud.
    Cloud,
}

/// A fault.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// Its name in requests, for example `vm.kill`.
    pub name: &'static str,
    /// The heading that it is listed under.
    pub group: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it acts on.
    pub needs: Needs,
    /// Whether it lasts for a time that the user chooses.
    pub lasts: bool,
    #[serde(skip)]
    pub(super) kind: FaultKind,
    /// The match and the action of its rule.
    #[serde(skip)]
    pub(super) rule: Value,
}

fn fault(name: &'static str, group: &'static str, title: &'static str, kind: FaultKind) -> Fault {
    rule(name, group, title, kind, Value::Null)
}

fn rule(name: &'static str, group: &'static str, title: &'static str, kind: FaultKind, rule: Value) -> Fault {
    let needs = match kind {
        FaultKind::Vm { .. } | FaultKind::Kubelet(_) => Needs::Machines,
        FaultKind::Zone => Needs::Zones,
        FaultKind::CreateVm
        | FaultKind::Restart(_)
        | FaultKind::Pause(_)
        | FaultKind::Crash(..)
        | FaultKind::Api
        | FaultKind::Cloud => Needs::Nothing,
    };
    let lasts = match kind {
        FaultKind::Vm { undo } => undo.is_some(),
        FaultKind::Kubelet(_) => !rule["undo"].is_null(),
        FaultKind::CreateVm | FaultKind::Restart(_) | FaultKind::Crash(..) => false,
        FaultKind::Api => rule["match"]["times"].is_null(),
        FaultKind::Pause(_) | FaultKind::Zone | FaultKind::Cloud => true,
    };
    Fault {
        name,
        group,
        title,
        needs,
        lasts,
        kind,
        rule,
    }
}

/// All faults, in the order in which they are listed.
pub fn all() -> Vec<Fault> {
    let mut faults = machines();
    faults.extend(kubelets());
    faults.extend(zones());
    faults.extend(processes());
    faults.extend(api());
    faults.extend(cloud());
    faults
}

fn machines() -> Vec<Fault> {
    const VM: &str = "VMs";
    let vm = |name, title, undo| fault(name, VM, title, FaultKind::Vm { undo });
    vec![
        vm("vm.kill", "Kill", Some("start")),
        vm("vm.stop", "Stop", Some("start")),
        vm("vm.start", "Start", None),
        vm("vm.reboot", "Reboot", None),
        vm("vm.hold", "Hold in its state", Some("release")),
        vm("vm.step", "Next state, while it is held", None),
        vm("vm.release", "Release", None),
        vm("vm.delete", "Delete in the cloud", None),
        vm("vm.preempt", "Preempt after a notice of two minutes", None),
        vm("vm.panic", "Kernel panic", Some("reboot")),
        fault(
            "vm.create",
            VM,
            "Create without a Machine, an orphan",
            FaultKind::CreateVm,
        ),
    ]
}

fn kubelets() -> Vec<Fault> {
    const GROUP: &str = "Kubelets";
    let kubelet = |name, title, command, begin: Value, end: Value| {
        let rule_of = json!({ "do": begin, "undo": end });
        rule(name, GROUP, title, FaultKind::Kubelet(command), rule_of)
    };
    let action = |name: &'static str, title, command, end: Value| {
        let (_, begin) = name.split_once('.').unwrap_or_default();
        kubelet(name, title, command, begin.into(), end)
    };
    let broken =
        |name, title, command, begin: Value, end: &str| kubelet(name, title, command, begin, json!({ "end": end }));
    vec![
        action("kubelet.stop", "Stop", "stopped", json!("start")),
        action("kubelet.start", "Start", "", Value::Null),
        action(
            "kubelet.partition",
            "Cut off from the API server",
            "partitioned",
            json!("reconnect"),
        ),
        action("kubelet.reconnect", "Connect again", "", Value::Null),
        action("kubelet.fillDisk", "Fill the disk", "DiskPressure", json!("freeDisk")),
        action("kubelet.freeDisk", "Free the disk", "", Value::Null),
        broken(
            "kubelet.freeze",
            "Freeze, as if no time passed",
            "frozen",
            json!("freeze"),
            "outage",
        ),
        broken(
            "kubelet.flap",
            "Cut off in turn, for 10 s of 20 s",
            "flapping --period 20s",
            json!({ "flap": { "every": "20s" } }),
            "outage",
        ),
        broken(
            "kubelet.slow",
            "Calls take 2 s longer",
            "slow --delay 2s",
            json!({ "slow": "2s" }),
            "slow",
        ),
        broken(
            "kubelet.slowRecovery",
            "Not ready for a minute after each outage",
            "slowRecovery --delay 1m",
            json!({ "slowRecovery": "1m" }),
            "slowRecovery",
        ),
        broken(
            "kubelet.clockAhead",
            "Clock 5 min ahead",
            "clockSkew --by 5m",
            json!({ "clockAhead": "5m" }),
            "clock",
        ),
        broken(
            "kubelet.clockBehind",
            "Clock 5 min behind",
            "clockSkew --by -5m",
            json!({ "clockBehind": "5m" }),
            "clock",
        ),
        broken(
            "kubelet.zombie",
            "Registers again when its Node is deleted",
            "zombie",
            json!("zombie"),
            "zombie",
        ),
        broken(
            "kubelet.takeOver",
            "Deletes a foreign Node of its name",
            "takeOver",
            json!("takeOver"),
            "takeOver",
        ),
    ]
}

fn zones() -> Vec<Fault> {
    const ZONE: &str = "Zones";
    vec![
        fault("zone.api", ZONE, "Calls fail", FaultKind::Zone),
        fault("zone.compute", ZONE, "VMs stop", FaultKind::Zone),
        fault("zone.both", ZONE, "Calls fail and VMs stop", FaultKind::Zone),
        fault("zone.brownOut", ZONE, "Calls fail or are slow", FaultKind::Zone),
    ]
}

fn processes() -> Vec<Fault> {
    const GROUP: &str = "Processes";
    vec![
        fault(
            "process.restart",
            GROUP,
            "Kill and start mcm",
            FaultKind::Restart("mcm"),
        ),
        fault(
            "process.crashBefore",
            GROUP,
            "Kill mcm before its next write of a machine, node or pod",
            FaultKind::Crash("mcm", "before"),
        ),
        fault(
            "process.crashAfter",
            GROUP,
            "Kill mcm after its next write of a machine, node or pod",
            FaultKind::Crash("mcm", "after"),
        ),
        fault("process.pause", GROUP, "Pause mcm", FaultKind::Pause("mcm")),
        fault(
            "cloud.restart",
            GROUP,
            "Kill and start fakecloud",
            FaultKind::Restart("fakecloud"),
        ),
    ]
}

/// The match of rules that hit only the machine controller.
fn of_mcm() -> Value {
    json!({ "client": "*:machine-controller-manager" })
}

fn api() -> Vec<Fault> {
    const GROUP: &str = "API server, for mcm";
    let api = |name, title, action: Value| {
        rule(
            name,
            GROUP,
            title,
            FaultKind::Api,
            json!({ "match": of_mcm(), "action": action }),
        )
    };
    let once = |name, title, action: Value| {
        let mut rule_of = json!({ "match": of_mcm(), "action": action });
        rule_of["match"]["times"] = 1.into();
        rule(name, GROUP, title, FaultKind::Api, rule_of)
    };
    let conflict = json!({
        "match": { "client": "*:machine-controller-manager", "verbs": ["update", "patch"] },
        "action": { "fail": { "code": 409 } },
    });
    let renewals = json!({
        "match": { "client": "*:machine-controller-manager", "verbs": ["update", "patch"], "resource": "leases" },
        "action": { "fail": { "code": 503 } },
    });
    vec![
        rule("api.conflict", GROUP, "Writes conflict (409)", FaultKind::Api, conflict),
        rule(
            "api.loseLease",
            GROUP,
            "Renewals of the Lease fail: leadership is lost",
            FaultKind::Api,
            renewals,
        ),
        api(
            "api.tooManyRequests",
            "Too many requests (429)",
            json!({ "fail": { "code": 429 } }),
        ),
        api(
            "api.internalError",
            "Internal errors (500)",
            json!({ "fail": { "code": 500 } }),
        ),
        api(
            "api.unavailable",
            "Unavailable (503)",
            json!({ "fail": { "code": 503 } }),
        ),
        api("api.timeout", "Timeouts (504)", json!({ "fail": { "code": 504 } })),
        api(
            "api.gone",
            "Old revisions are gone (410)",
            json!({ "fail": { "code": 410 } }),
        ),
        api(
            "api.tooLarge",
            "Objects are too large (413)",
            json!({ "fail": { "code": 413 } }),
        ),
        api(
            "api.unauthorized",
            "The token has expired (401)",
            json!({ "fail": { "code": 401 } }),
        ),
        api(
            "api.forbidden",
            "Permission is withdrawn (403)",
            json!({ "fail": { "code": 403 } }),
        ),
        api(
            "api.failedAfterCommit",
            "Writes succeed and report a timeout",
            json!({ "fail": { "code": 504, "at": "afterCommit" } }),
        ),
        api(
            "api.slow",
            "Requests take 2 s longer",
            json!({ "delay": { "by": "2s" } }),
        ),
        api(
            "api.slowResponses",
            "Responses take 2 s longer",
            json!({ "delay": { "at": "afterCommit", "by": "2s" } }),
        ),
        api(
            "api.lostRequests",
            "Requests are lost",
            json!({ "drop": { "at": "beforeCommit" } }),
        ),
        api(
            "api.lostResponses",
            "Responses are lost",
            json!({ "drop": { "at": "afterCommit" } }),
        ),
        api(
            "api.staleReads",
            "Reads from caches are 30 s old",
            json!({ "staleGet": { "by": { "duration": "30s" } } }),
        ),
        api(
            "api.staleLists",
            "Lists from caches are 30 s old",
            json!({ "staleList": { "by": { "duration": "30s" } } }),
        ),
        api(
            "api.lagWatch",
            "Watches are 5 s behind",
            json!({ "lagWatch": { "by": "5s" } }),
        ),
        api("api.freezeWatch", "Watches are silent", json!({ "freezeWatch": {} })),
        api("api.truncateWatch", "Watches end", json!({ "truncateWatch": {} })),
        api(
            "api.brokenWatch",
            "Watches break within their second event",
            json!({ "truncateWatch": { "afterEvents": 1, "midway": true } }),
        ),
        api(
            "api.refuse",
            "Connections are refused",
            json!({ "partition": { "how": "refuse" } }),
        ),
        api(
            "api.hang",
            "Connections hang",
            json!({ "partition": { "how": "hang" } }),
        ),
        once(
            "api.compact",
            "Discard the history: no watch can resume",
            json!({ "compact": {} }),
        ),
        once(
            "api.compactBehind",
            "Discard the history of watches that are behind",
            json!({ "compact": { "behindOnly": true } }),
        ),
        once(
            "api.restart",
            "Restart the server, which keeps its history",
            json!({ "restart": { "keepHistory": true } }),
        ),
        once(
            "api.restartEmpty",
            "Restart the server without its history",
            json!({ "restart": {} }),
        ),
    ]
}

fn cloud() -> Vec<Fault> {
    const GROUP: &str = "Calls of the cloud";
    let named = |name, title, error: &str| {
        rule(
            name,
            GROUP,
            title,
            FaultKind::Cloud,
            json!({ "action": { "error": error } }),
        )
    };
    let of_call = |name, title, call: &str, action: Value| {
        rule(
            name,
            GROUP,
            title,
            FaultKind::Cloud,
            json!({ "match": { "call": call }, "action": action }),
        )
    };
    vec![
        named("cloud.quota", "The quota is used up", "quota"),
        named("cloud.capacity", "The zone has no capacity", "capacity"),
        named("cloud.throttled", "The rate limit is exceeded", "throttled"),
        named(
            "cloud.credentialsExpired",
            "The credentials have expired",
            "credentialsExpired",
        ),
        named(
            "cloud.credentialsWrong",
            "The credentials are wrong",
            "credentialsWrong",
        ),
        named("cloud.denied", "Permission is denied", "denied"),
        named("cloud.outage", "The cloud's API is down", "outage"),
        // The code comes from the request.
        rule(
            "cloud.code",
            GROUP,
            "A machine code",
            FaultKind::Cloud,
            json!({ "action": {} }),
        ),
        rule(
            "cloud.slow",
            GROUP,
            "Replies take 1 to 10 s",
            FaultKind::Cloud,
            json!({ "action": { "latency": "1s-10s" } }),
        ),
        of_call(
            "cloud.lostReply",
            "Replies to creations are lost",
            "createMachine",
            json!({ "lostReply": true }),
        ),
        of_call(
            "cloud.lateCreation",
            "Creations take effect 30 s later",
            "createMachine",
            json!({ "effectDelay": "30s" }),
        ),
        of_call(
            "cloud.failedAfterCreation",
            "Creations succeed and report an error",
            "createMachine",
            json!({ "code": "Internal", "at": "afterCommit" }),
        ),
        of_call(
            "cloud.stuckCreation",
            "Creations do not end",
            "createMachine",
            json!({ "stuck": true }),
        ),
        of_call(
            "cloud.partialCreation",
            "Creations end with a disk and no VM",
            "createMachine",
            json!({ "partial": "disks", "error": "capacity" }),
        ),
        of_call(
            "cloud.partialNetwork",
            "Creations end with network interfaces and no VM",
            "createMachine",
            json!({ "partial": "nics", "error": "quota" }),
        ),
        of_call(
            "cloud.partialInitialization",
            "Initializations end with the first network interface",
            "initializeMachine",
            json!({ "partial": "nics", "code": "Internal" }),
        ),
        of_call(
            "cloud.partialUpdate",
            "Updates end with the tags",
            "updateMachine",
            json!({ "partial": "tags", "code": "Internal" }),
        ),
        of_call(
            "cloud.lateDeletion",
            "Deletions take 30 s",
            "deleteMachine",
            json!({ "effectDelay": "30s" }),
        ),
        of_call(
            "cloud.stuckDeletion",
            "Deletions do not end",
            "deleteMachine",
            json!({ "stuck": true }),
        ),
        of_call(
            "cloud.partialDeletion",
            "Deletions leave disks behind",
            "deleteMachine",
            json!({ "partial": "vm", "code": "Internal" }),
        ),
        of_call(
            "cloud.staleStatus",
            "States of VMs are 30 s old",
            "getMachineStatus",
            json!({ "stale": { "by": "30s" } }),
        ),
        of_call(
            "cloud.staleList",
            "Lists of VMs are 30 s old",
            "listMachines",
            json!({ "stale": { "by": "30s" } }),
        ),
        of_call(
            "cloud.lostVolume",
            "Volumes cannot be attached",
            "attachVolume",
            json!({ "code": "Internal" }),
        ),
        of_call(
            "cloud.lateVolume",
            "Volumes are attached 30 s later",
            "attachVolume",
            json!({ "effectDelay": "30s" }),
        ),
        of_call(
            "cloud.keptVolume",
            "Volumes cannot be detached",
            "detachVolume",
            json!({ "code": "Internal" }),
        ),
    ]
}
