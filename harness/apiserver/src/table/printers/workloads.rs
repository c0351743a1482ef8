//! Workloads, their revisions and their disruption budgets.

use serde_json::Value;

use super::{
    AGE, NAME, NONE, age, amount, condition, items, name, number, of_containers, printer, selector, text, text_or,
};
use crate::resource::Printer;
use crate::table::age::{human, seconds_of};

const CONTAINERS: (&str, &str, i32) = ("Containers", "string", 1);
const IMAGES: (&str, &str, i32) = ("Images", "string", 1);
const SELECTOR: (&str, &str, i32) = ("Selector", "string", 1);

pub(crate) fn deployments() -> Printer {
    let columns = [
        NAME,
        ("Ready", "string", 0),
        ("Up-to-date", "string", 0),
        ("Available", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ];
    printer(&columns, |deployment, now| {
        vec![
            name(deployment),
            ready_of_desired(deployment),
            number(deployment, "/status/updatedReplicas").into(),
            number(deployment, "/status/availableReplicas").into(),
            age(deployment, now),
            of_containers(deployment, "/spec/template", "/name"),
            of_containers(deployment, "/spec/template", "/image"),
            selector(deployment, "/spec/selector").into(),
        ]
    })
}

fn ready_of_desired(workload: &Value) -> Value {
    format!(
        "{}/{}",
        number(workload, "/status/readyReplicas"),
        number(workload, "/spec/replicas")
    )
    .into()
}

/// Also of ReplicationControllers.
pub(crate) fn replica_sets() -> Printer {
    let columns = [
        NAME,
        ("Desired", "integer", 0),
        ("Current", "integer", 0),
        ("Ready", "integer", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ];
    printer(&columns, |set, now| {
        vec![
            name(set),
            number(set, "/spec/replicas").into(),
            number(set, "/status/replicas").into(),
            number(set, "/status/readyReplicas").into(),
            age(set, now),
            of_containers(set, "/spec/template", "/name"),
            of_containers(set, "/spec/template", "/image"),
            selector(set, "/spec/selector").into(),
        ]
    })
}

pub(crate) fn stateful_sets() -> Printer {
    printer(&[NAME, ("Ready", "string", 0), AGE, CONTAINERS, IMAGES], |set, now| {
        vec![
            name(set),
            ready_of_desired(set),
            age(set, now),
            of_containers(set, "/spec/template", "/name"),
            of_containers(set, "/spec/template", "/image"),
        ]
    })
}

pub(crate) fn daemon_sets() -> Printer {
    let columns = [
        NAME,
        ("Desired", "integer", 0),
        ("Current", "integer", 0),
        ("Ready", "integer", 0),
        ("Up-to-date", "integer", 0),
        ("Available", "integer", 0),
        ("Node Selector", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ];
    printer(&columns, |set, now| {
        vec![
            name(set),
            number(set, "/status/desiredNumberScheduled").into(),
            number(set, "/status/currentNumberScheduled").into(),
            number(set, "/status/numberReady").into(),
            number(set, "/status/updatedNumberScheduled").into(),
            number(set, "/status/numberAvailable").into(),
            selector(set, "/spec/template/spec/nodeSelector").into(),
            age(set, now),
            of_containers(set, "/spec/template", "/name"),
            of_containers(set, "/spec/template", "/image"),
            selector(set, "/spec/selector").into(),
        ]
    })
}

pub(crate) fn controller_revisions() -> Printer {
    let columns = [NAME, ("Controller", "string", 0), ("Revision", "integer", 0), AGE];
    printer(&columns, |revision, now| {
        let mut owners = items(revision, "/metadata/ownerReferences").iter();
        let controller = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
        let controller = controller.map_or(NONE.to_owned(), |owner| {
            let group = text(owner, "/apiVersion")
                .split_once('/')
                .map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!(
                "{}{dot}{group}/{}",
                text(owner, "/kind").to_lowercase(),
                text(owner, "/name")
            )
        });
        vec![
            name(revision),
            controller.into(),
            number(revision, "/revision").into(),
            age(revision, now),
        ]
    })
}

pub(crate) fn jobs() -> Printer {
    let columns = [
        NAME,
        ("Status", "string", 0),
        ("Completions", "string", 0),
        ("Duration", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ];
    printer(&columns, |job, now| {
        let succeeded = number(job, "/status/succeeded");
        let completions = match (job.pointer("/spec/completions"), number(job, "/spec/parallelism")) {
            (Some(wanted), _) => format!("{succeeded}/{wanted}"),
            (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let start = seconds_of(job.pointer("/status/startTime"));
        let end = seconds_of(job.pointer("/status/completionTime")).unwrap_or(now);
        vec![
            name(job),
            job_status(job).into(),
            completions.into(),
            start
                .map_or(String::new(), |start| human(end.saturating_sub(start)))
                .into(),
            age(job, now),
            of_containers(job, "/spec/template", "/name"),
            of_containers(job, "/spec/template", "/image"),
            selector(job, "/spec/selector").into(),
        ]
    })
}

fn job_status(job: &Value) -> &'static str {
    let is_true = |type_| condition(job, type_) == "True";
    if is_true("Complete") {
        "Complete"
    } else if is_true("Failed") {
        "Failed"
    } else if job.pointer("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else if is_true("Suspended") {
        "Suspended"
    } else if is_true("FailureTarget") {
        "FailureTarget"
    } else if is_true("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

pub(crate) fn cron_jobs() -> Printer {
    let columns = [
        NAME,
        ("Schedule", "string", 0),
        ("Timezone", "string", 0),
        ("Suspend", "boolean", 0),
        ("Active", "integer", 0),
        ("Last Schedule", "string", 0),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ];
    printer(&columns, |job, now| {
        let template = job.pointer("/spec/jobTemplate").unwrap_or(&Value::Null);
        let last = crate::table::age::since(job.pointer("/status/lastScheduleTime"), now);
        let suspended = job.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true);
        vec![
            name(job),
            text(job, "/spec/schedule").into(),
            text_or(job, "/spec/timeZone", NONE).into(),
            if suspended { "True" } else { "False" }.into(),
            items(job, "/status/active").len().into(),
            last.unwrap_or(NONE.to_owned()).into(),
            age(job, now),
            of_containers(template, "/spec/template", "/name"),
            of_containers(template, "/spec/template", "/image"),
            selector(template, "/spec/selector").into(),
        ]
    })
}

pub(crate) fn disruption_budgets() -> Printer {
    let columns = [
        NAME,
        ("Min Available", "string", 0),
        ("Max Unavailable", "string", 0),
        ("Allowed Disruptions", "integer", 0),
        AGE,
    ];
    printer(&columns, |budget, now| {
        vec![
            name(budget),
            amount(budget, "/spec/minAvailable", "N/A").into(),
            amount(budget, "/spec/maxUnavailable", "N/A").into(),
            number(budget, "/status/disruptionsAllowed").into(),
            age(budget, now),
        ]
    })
}
