//! Decides what a request for a fault does, before anything happens: the same decision is the preview and the order.

use std::collections::BTreeSet;
use std::time::Duration;

use scenario::Step;
use scenario::plan::{Disturbance, TimedStep};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::catalogue::{Fault, FaultKind, Needs, all};

/// The longest time of a fault.
const LONGEST: u64 = 24 * 3600;
/// The most names in a request.
const MOST_TARGETS: usize = 1000;
/// The most commands of a preview, which has the number of the others.
const MOST_COMMANDS: usize = 20;

/// A request for a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultRequest {
    /// The name of the fault.
    pub fault: String,
    /// Names of machines or zones; `*` stands for any letters.
    #[serde(default)]
    pub targets: Vec<String>,
    /// For how many seconds; absent: until it is ended in another way.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// The machine code, of `cloud.code`.
    #[serde(default)]
    pub code: Option<String>,
}

/// Why a request for a fault is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// There is no fault of that name.
    #[error("fault: there is no fault {0:?}")]
    Unknown(String),
    /// It acts on machines or zones, and none is named.
    #[error("targets: name at least one {0}, or * for all")]
    NoTarget(&'static str),
    /// It acts on nothing that can be named.
    #[error("targets: {0} acts on no machine and no zone: leave them out")]
    NeedsNoTarget(String),
    /// There are too many names.
    #[error("targets: {0} names; a request has at most {MOST_TARGETS}: use *")]
    TooManyTargets(usize),
    /// No machine or zone has such a name.
    #[error("targets: no {what} matches {pattern:?}{}", if *.what == "machine" { " and has a VM" } else { "" })]
    NoMatch {
        /// What is missing.
        what: &'static str,
        /// The name or pattern.
        pattern: String,
    },
    /// The time is invalid.
    #[error("seconds: {0}")]
    Time(&'static str),
    /// The code is missing or belongs to another fault.
    #[error("code: {0}")]
    Code(&'static str),
    /// The rule or step that it would be is invalid.
    #[error("{0}")]
    Invalid(String),
}

/// A machine with a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub machine: String,
    /// The id of its VM.
    pub vm: String,
    /// The name of its Node; empty: it has none yet.
    pub node: String,
    /// Its zone.
    pub zone: String,
    /// The name of the deployment or set that it belongs to, and its position among the machines of it.
    pub of: Option<(String, u64)>,
}

/// What faults can act on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// The machines that have a VM, by name.
    pub members: Vec<Member>,
    /// The zones.
    pub zones: Vec<String>,
}

/// A step of a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultStep {
    /// The step.
    pub step: Step,
    /// The id of the VM that it acts on.
    pub vm: Option<String>,
    /// The step in a plan, where machines of sets have other names.
    pub planned: Step,
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// Its title.
    pub title: String,
    /// The steps that begin it.
    pub begin: Vec<FaultStep>,
    /// The steps that end it.
    pub end: Vec<FaultStep>,
    /// The time between them; `None`: it lasts until a user ends it.
    pub lasts: Option<Duration>,
    /// The machines, zones or parts that it hits.
    pub hits: Vec<String>,
    /// The number of those that it could hit.
    pub of: usize,
    /// The same as command lines; empty: there is no command.
    pub commands: Vec<String>,
}

/// The preview for the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Its title.
    pub title: String,
    /// The machines, zones or parts that it hits.
    pub hits: Vec<String>,
    /// The number of those that it could hit.
    pub of: usize,
    /// The same as command lines; empty: there is no command.
    pub commands: Vec<String>,
    /// The lines in a plan.
    pub plan: String,
}

/// Decides what a request does. `number` makes the names of its rules unique.
///
/// # Errors
/// See [`FaultError`].
pub fn decide(request: &FaultRequest, fleet: &Fleet, number: u64) -> Result<FaultPlan, FaultError> {
    let fault = all().into_iter().find(|fault| fault.name == request.fault);
    let fault = fault.ok_or_else(|| FaultError::Unknown(request.fault.clone()))?;
    let lasts = time(&fault, request.seconds)?;
    if request.code.is_some() && fault.name != "cloud.code" {
        return Err(FaultError::Code("only the fault `cloud.code` has one"));
    }
    if request.targets.len() > MOST_TARGETS {
        return Err(FaultError::TooManyTargets(request.targets.len()));
    }
    let mut plan = match fault.needs {
        Needs::Machines => on_machines(&fault, request, fleet, lasts)?,
        Needs::Zones => on_zones(&fault, request, fleet, lasts)?,
        Needs::Nothing if !request.targets.is_empty() => return Err(FaultError::NeedsNoTarget(request.fault.clone())),
        Needs::Nothing => on_the_world(&fault, request, number, lasts)?,
    };
    plan.lasts = lasts;
    if let Some(more) = plan.commands.len().checked_sub(MOST_COMMANDS).filter(|more| *more > 0) {
        plan.commands.truncate(MOST_COMMANDS);
        plan.commands.push(format!("# and {more} more"));
    }
    Ok(plan)
}

impl FaultPlan {
    /// The preview for the page.
    pub fn preview(&self) -> Preview {
        let mut lines = Vec::new();
        for step in &self.begin {
            lines.push(line_of(&step.planned));
        }
        if let (Some(lasts), false) = (self.lasts, self.end.is_empty()) {
            lines.push(format!("- wait: {}s", lasts.as_secs()));
            lines.extend(self.end.iter().map(|step| line_of(&step.planned)));
        }
        Preview {
            title: self.title.clone(),
            hits: self.hits.clone(),
            of: self.of,
            commands: self.commands.clone(),
            plan: truncated(lines),
        }
    }

    /// The steps of a plan that begin and end the fault, which begins at that time after that number of recorded events.
    pub fn timed(&self, at: Duration, after_events: u64) -> Vec<TimedStep> {
        let begin = self.begin.iter().map(|step| step.timed(at, Some(after_events)));
        let mut steps: Vec<TimedStep> = begin.collect();
        if let Some(lasts) = self.lasts {
            steps.extend(self.timed_end(at.saturating_add(lasts), None));
        }
        steps
    }

    /// The steps of a plan that end the fault at that time.
    pub fn timed_end(&self, at: Duration, after_events: Option<u64>) -> Vec<TimedStep> {
        self.end.iter().map(|step| step.timed(at, after_events)).collect()
    }

    /// The preview for the page of a simulated world: faults are disturbances at a time, and no command does the same.
    pub fn preview_at(&self, at: Duration, after_events: u64) -> Preview {
        let lines = self.timed(at, after_events).into_iter().map(|step| {
            let disturbance = Disturbance::Step(Box::new(step));
            format!("- {}", serde_json::to_string(&disturbance).unwrap_or_default())
        });
        Preview {
            commands: Vec::new(),
            plan: truncated(lines.collect()),
            ..self.preview()
        }
    }
}

/// The first lines, and the number of the others.
fn truncated(mut lines: Vec<String>) -> String {
    if let Some(more) = lines.len().checked_sub(MOST_COMMANDS).filter(|more| *more > 0) {
        lines.truncate(MOST_COMMANDS);
        lines.push(format!("# and {more} more"));
    }
    lines.join("\n")
}

/// A step as a line of a plan: JSON is YAML.
fn line_of(step: &Step) -> String {
    format!("- {}", serde_json::to_string(step).unwrap_or_default())
}

fn time(fault: &Fault, seconds: Option<u64>) -> Result<Option<Duration>, FaultError> {
    match seconds {
        Some(_) if !fault.lasts => Err(FaultError::Time("this fault is a moment: leave the time out")),
        Some(seconds) if seconds == 0 || seconds > LONGEST => Err(FaultError::Time("write 1 to 86400")),
        seconds => Ok(seconds.map(Duration::from_secs)),
    }
}

/// A step from its form in files.
fn step(form: Value) -> Result<Step, FaultError> {
    let step: Step = serde_json::from_value(form).map_err(|error| FaultError::Invalid(error.to_string()))?;
    Ok(step)
}

/// The part of a name after its point: the word in files.
fn word(fault: &Fault) -> &'static str {
    fault.name.split_once('.').map_or(fault.name, |(_, word)| word)
}

fn on_machines(
    fault: &Fault,
    request: &FaultRequest,
    fleet: &Fleet,
    lasts: Option<Duration>,
) -> Result<FaultPlan, FaultError> {
    let names = fleet.members.iter().map(|member| member.machine.as_str());
    let chosen: BTreeSet<&str> = matching(&request.targets, names, "machine")?.into_iter().collect();
    let members: Vec<&Member> = fleet
        .members
        .iter()
        .filter(|member| chosen.contains(member.machine.as_str()))
        .collect();
    let (kind, begin, undo): (_, Value, Value) = match fault.kind {
        FaultKind::Kubelet(_) => ("kubelet", fault.rule["do"].clone(), fault.rule["undo"].clone()),
        FaultKind::Vm { undo } => ("vm", word(fault).into(), undo.into()),
        _ => ("vm", word(fault).into(), Value::Null),
    };
    let mut plan = FaultPlan::new(
        format!("{} {}: {}", fault.group, fault.title, members.len()),
        fleet.members.len(),
    );
    for member in members {
        plan.begin.push(step_on(kind, &begin, member)?);
        if !undo.is_null() {
            plan.end.push(step_on(kind, &undo, member)?);
        }
        plan.commands.extend(command_on(fault, member, lasts));
        plan.hits.push(member.machine.clone());
    }
    Ok(plan)
}

fn step_on(kind: &str, action: &Value, member: &Member) -> Result<FaultStep, FaultError> {
    let planned = match &member.of {
        None => json!({ kind: { "machine": member.machine, "do": action } }),
        // Names of machines of sets differ from run to run.
        Some((of, nth)) => json!({ "deferred": {
            "called": member.machine, "among": format!("{of}-*"), "nth": nth, "do": { kind: action }, "mayMiss": true,
        } }),
    };
    Ok(FaultStep {
        step: step(json!({ kind: { "machine": member.machine, "do": action } }))?,
        vm: Some(member.vm.clone()),
        planned: step(planned)?,
    })
}

fn command_on(fault: &Fault, member: &Member, lasts: Option<Duration>) -> Vec<String> {
    let Member { machine, vm, node, .. } = member;
    let node = if node.is_empty() { vm } else { node };
    let for_time = lasts
        .map(|lasts| format!(" --lasts {}s", lasts.as_secs()))
        .unwrap_or_default();
    let later = |undo: &str| lasts.map(|lasts| format!("sleep {}; {undo}", lasts.as_secs()));
    match (fault.kind, word(fault)) {
        (_, "fillDisk") => [
            Some(format!("drydock nodes break {node} --condition DiskPressure=True")),
            later(&format!("drydock nodes repair {node}")),
        ]
        .into_iter()
        .flatten()
        .collect(),
        (FaultKind::Kubelet(""), _) => vec![format!("drydock nodes repair {node}")],
        (FaultKind::Kubelet(command), _) => {
            vec![format!("drydock nodes break {node} --with {command}{for_time}")]
        }
        (FaultKind::Vm { undo }, word) => {
            let later = undo.and_then(|undo| later(&format!("fakecloud vm {undo} {machine}")));
            std::iter::once(format!("fakecloud vm {word} {machine}"))
                .chain(later)
                .collect()
        }
        _ => Vec::new(),
    }
}

fn on_zones(
    fault: &Fault,
    request: &FaultRequest,
    fleet: &Fleet,
    lasts: Option<Duration>,
) -> Result<FaultPlan, FaultError> {
    let chosen = matching(&request.targets, fleet.zones.iter().map(String::as_str), "zone")?;
    let affected = fleet
        .members
        .iter()
        .filter(|member| chosen.contains(&member.zone.as_str()))
        .count();
    let mut plan = FaultPlan::new(
        format!("{}: {} ({affected} machines)", chosen.join(", "), fault.title),
        fleet.zones.len(),
    );
    for zone in chosen {
        plan.begin.push(FaultStep::same(step(
            json!({ "failZone": { "zone": zone, "failure": word(fault) } }),
        )?));
        let for_time = lasts
            .map(|lasts| format!(" --lasts {}s", lasts.as_secs()))
            .unwrap_or_default();
        plan.commands.push(format!(
            "fakecloud zone fail {zone} --failure {}{for_time}",
            word(fault)
        ));
        plan.end.push(FaultStep::same(step(json!({ "restoreZone": zone }))?));
        plan.hits.push(zone.to_owned());
    }
    Ok(plan)
}

/// The name of a fault's rule.
pub(crate) fn rule_name(number: u64) -> String {
    format!("session-{number}")
}

fn on_the_world(
    fault: &Fault,
    request: &FaultRequest,
    number: u64,
    lasts: Option<Duration>,
) -> Result<FaultPlan, FaultError> {
    let mut plan = FaultPlan::new(format!("{}: {}", fault.group, fault.title), 1);
    let name = rule_name(number);
    match fault.kind {
        FaultKind::Pause(process) => {
            let lasts = lasts.ok_or(FaultError::Time("write for how long: 1 to 86400"))?;
            plan.begin.push(FaultStep::same(step(
                json!({ "pause": { "process": process, "time": format!("{}s", lasts.as_secs()) } }),
            )?));
            plan.hits.push(process.to_owned());
        }
        FaultKind::CreateVm => {
            // There is no command: the cloud creates VMs only for a driver.
            plan.begin.push(FaultStep::same(step(
                json!({ "createVm": { "machine": name, "tagged": true } }),
            )?));
            plan.hits.push(name);
        }
        FaultKind::Crash(process, at) => {
            plan.begin.push(FaultStep::same(step(
                json!({ "crashNext": { "process": process, "at": at, "mayMiss": true } }),
            )?));
            plan.hits.push(process.to_owned());
        }
        FaultKind::Restart(process) => {
            plan.begin.push(FaultStep::same(step(
                json!({ "process": { "name": process, "do": "restart" } }),
            )?));
            // There is no command: it would have to find the process among all of that name.
            plan.hits.push(process.to_owned());
        }
        FaultKind::Api => {
            let rule = named(&fault.rule, &name);
            plan.add_rule("drydock", &rule, lasts);
            plan.begin.push(FaultStep::same(step(
                json!({ "apiFault": { "rule": rule, "mayMiss": true } }),
            )?));
            if fault.lasts {
                plan.end.push(FaultStep::same(step(json!({ "liftApiFault": name }))?));
            }
            plan.hits.push(requests_of(&fault.rule["match"], fault.lasts));
        }
        _ => {
            let mut rule = named(&fault.rule, &name);
            if fault.name == "cloud.code" {
                let code = request
                    .code
                    .as_deref()
                    .ok_or(FaultError::Code("write a machine code, for example Unavailable"))?;
                rule["action"]["code"] = code.into();
            }
            plan.add_rule("fakecloud", &rule, lasts);
            rule["mayMiss"] = true.into();
            plan.begin.push(FaultStep::same(step(json!({ "inject": rule }))?));
            plan.end.push(FaultStep::same(step(json!({ "lift": name }))?));
            let call = fault.rule["match"]["call"].as_str();
            plan.hits.push(call.map_or_else(
                || "calls of the cloud".to_owned(),
                |call| format!("calls {call} of the cloud"),
            ));
        }
    }
    Ok(plan)
}

/// The requests that a rule hits, in words: `update, patch requests of mcm for leases`.
fn requests_of(matches: &Value, lasts: bool) -> String {
    let verbs = matches["verbs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let verbs: Vec<&str> = verbs.collect();
    let what = match (lasts, verbs.is_empty()) {
        (true, true) => "requests".to_owned(),
        (true, false) => format!("{} requests", verbs.join(", ")),
        (false, _) => "the next request".to_owned(),
    };
    let resource = matches["resource"].as_str();
    let of = resource.map_or_else(String::new, |resource| format!(" for {resource}"));
    format!("{what} of mcm{of}")
}

fn named(rule: &Value, name: &str) -> Value {
    let mut rule = rule.clone();
    rule["name"] = name.into();
    rule
}

impl FaultPlan {
    fn new(title: String, of: usize) -> Self {
        Self {
            title,
            begin: Vec::new(),
            end: Vec::new(),
            lasts: None,
            hits: Vec::new(),
            of,
            commands: Vec::new(),
        }
    }

    /// The commands that add and remove a rule.
    fn add_rule(&mut self, program: &str, rule: &Value, lasts: Option<Duration>) {
        self.commands.push(format!("echo '{rule}' | {program} faults add -"));
        if let (Some(lasts), Some(name)) = (lasts, rule["name"].as_str()) {
            self.commands
                .push(format!("sleep {}; {program} faults remove {name}", lasts.as_secs()));
        }
    }
}

impl FaultStep {
    /// The step at a time of the same world: its machines have the same names.
    fn timed(&self, at: Duration, after_events: Option<u64>) -> TimedStep {
        let mut step = self.step.clone();
        step.let_miss();
        TimedStep {
            at: at.into(),
            after_events,
            step,
        }
    }

    /// A step that is the same in a plan and acts on no VM.
    fn same(step: Step) -> Self {
        Self {
            planned: step.clone(),
            step,
            vm: None,
        }
    }
}

/// The names that match one of the patterns, each of which must match one.
fn matching<'a>(
    patterns: &[String],
    names: impl Iterator<Item = &'a str> + Clone,
    what: &'static str,
) -> Result<Vec<&'a str>, FaultError> {
    if patterns.is_empty() {
        return Err(FaultError::NoTarget(what));
    }
    for pattern in patterns {
        if !names.clone().any(|name| glob(pattern, name)) {
            return Err(FaultError::NoMatch {
                what,
                pattern: pattern.clone(),
            });
        }
    }
    Ok(names
        .filter(|name| patterns.iter().any(|pattern| glob(pattern, name)))
        .collect())
}

/// Whether a name matches a pattern with `*`. Takes linear space and no recursion.
fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(part) = last.replace(part) {
            match rest.find(part) {
                Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
                None => return false,
            }
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => rest.is_empty(),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
