//! The definition of MachineHealthCheck.
//!
//! Rules refuse a setting that is written in both spellings, and values that would mean something else than they say:
//! Cluster API turns `500ms` into zero seconds, which means "at once".

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSONSchemaProps,
};

use super::schema::{
    Refine, bounded_text, count, count_or_percentage, duration, list_of, map_of, object, revision, root, string, time,
};
use super::{Parts, age, column, status_only};
use crate::health_check::{MachineHealthCheckSpec, MachineHealthCheckStatus};
use crate::keys;

/// The maximum number of conditions in a list.
const CONDITIONS: i64 = 100;
/// The maximum number of templates that are tried in order.
const ESCALATIONS: i64 = 20;

pub(super) fn definition() -> CustomResourceDefinition {
    Parts {
        kind: "MachineHealthCheck",
        plural: "machinehealthchecks",
        short: "mhc",
        columns: vec![
            column(
                "Replicas",
                "integer",
                ".status.expectedMachines",
                "Machines that are checked",
            ),
            column(
                "Healthy",
                "integer",
                ".status.currentHealthy",
                "Those of them that are healthy",
            ),
            column(
                "MaxUnhealthy",
                "string",
                ".spec.maxUnhealthy",
                "Up to which number of unhealthy machines they are remediated",
            ),
            column(
                "Allowed",
                "string",
                ".status.conditions[?(@.type==\"RemediationAllowed\")].status",
                "Whether unhealthy machines are remediated",
            ),
            CustomResourceColumnDefinition {
                priority: Some(1),
                ..column(
                    "Paused",
                    "string",
                    ".status.conditions[?(@.type==\"Paused\")].status",
                    "Whether the check is paused",
                )
            },
            age(),
        ],
        subresources: Some(status_only()),
        schema: root(spec(), status()).described(
            "Health rules for a group of machines, a limit for simultaneous failures, and how machines are remediated.",
        ),
    }
    .definition()
    .with_short_name("mhcs")
}

/// Adds names to a definition.
trait Named {
    fn with_short_name(self, name: &str) -> Self;
}

impl Named for CustomResourceDefinition {
    fn with_short_name(mut self, name: &str) -> Self {
        self.spec
            .names
            .short_names
            .get_or_insert_default()
            .push(name.to_owned());
        self
    }
}

fn spec() -> JSONSchemaProps {
    let spec = object([
        ("clusterName", string().described("Accepted and ignored: there is no object for a cluster.")),
        (
            "selector",
            selector().described("Which machines of the namespace are checked; it must name at least one label."),
        ),
        (
            "unhealthyConditions",
            conditions(timeout()).described("Node conditions, each of which makes a machine unhealthy after its timeout."),
        ),
        (
            "unhealthyMachineConditions",
            machine_conditions(timeout()).described(
                "The same for conditions of the Machine, and for phases, as type Phase=CrashLoopBackOff with status True.",
            ),
        ),
        (
            "nodeStartupTimeout",
            startup_timeout()
                .described(
                    "How long a machine may take until its node joins; 0: for ever. The default, 10m, does not count if \
                     checks.nodeStartupTimeoutSeconds is set.",
                )
                .defaulting(MachineHealthCheckSpec::STARTUP_TIMEOUT.into()),
        ),
        (
            "maxUnhealthy",
            limit().described(
                "The number or percentage (rounded down) of machines up to which unhealthy ones are remediated; absent: all.",
            ),
        ),
        (
            "unhealthyRange",
            range().described(
                "The numbers of unhealthy machines, as [3-5], at which they are remediated; it wins over maxUnhealthy.",
            ),
        ),
        (
            "remediationTemplate",
            template().described(
                "The template of requests to another controller; absent: the owner of a machine replaces it.",
            ),
        ),
        (
            "escalatingRemediations",
            escalations().described("Templates that are tried one after the other."),
        ),
        (
            "maxInFlight",
            places().described(
                "The number or percentage (rounded up) of machines that are remediated at the same time; absent: no limit.",
            ),
        ),
        (
            "stormCooldown",
            timeout()
                .described("How long no machine is remediated after too many were unhealthy.")
                .defaulting("0s".into()),
        ),
        (
            "healthyDelay",
            timeout()
                .described("How long a failed machine must be healthy again before it counts as healthy.")
                .defaulting("0s".into()),
        ),
        ("checks", checks().described("Another spelling of the conditions and of nodeStartupTimeout, with seconds.")),
        (
            "remediation",
            remediation().described("Another spelling of maxUnhealthy, unhealthyRange and remediationTemplate."),
        ),
    ])
    .required(&["selector"])
    .rule(
        "!(has(self.remediationTemplate) && has(self.escalatingRemediations))",
        "remediationTemplate and escalatingRemediations exclude each other: move the template into \
         escalatingRemediations, with the lowest order",
    )
    .rule(
        "!(has(self.remediation) && has(self.remediation.templateRef) && has(self.escalatingRemediations))",
        "remediation.templateRef and escalatingRemediations exclude each other: move the template into \
         escalatingRemediations, with the lowest order",
    );
    [
        ("unhealthyConditions", "checks", "unhealthyNodeConditions"),
        ("unhealthyMachineConditions", "checks", "unhealthyMachineConditions"),
        ("remediationTemplate", "remediation", "templateRef"),
    ]
    .into_iter()
    .fold(spec, one_spelling)
    .rule(
        // An API server adds the default to a spec in the other spelling.
        &format!(
            "!(has(self.nodeStartupTimeout) && duration(self.nodeStartupTimeout) != duration('{}') && has(self.checks) && \
             has(self.checks.nodeStartupTimeoutSeconds))",
            MachineHealthCheckSpec::STARTUP_TIMEOUT
        ),
        "nodeStartupTimeout and checks.nodeStartupTimeoutSeconds are two spellings of one setting: remove one",
    )
    .rule(
        "!(has(self.maxUnhealthy) && has(self.remediation) && has(self.remediation.triggerIf) && \
         has(self.remediation.triggerIf.unhealthyLessThanOrEqualTo))",
        "maxUnhealthy and remediation.triggerIf.unhealthyLessThanOrEqualTo are two spellings of one setting: remove one",
    )
    .rule(
        "!(has(self.unhealthyRange) && has(self.remediation) && has(self.remediation.triggerIf) && \
         has(self.remediation.triggerIf.unhealthyInRange))",
        "unhealthyRange and remediation.triggerIf.unhealthyInRange are two spellings of one setting: remove one",
    )
}

/// Refuses a setting in both spellings.
fn one_spelling(spec: JSONSchemaProps, (flat, block, nested): (&str, &str, &str)) -> JSONSchemaProps {
    spec.rule(
        &format!("!(has(self.{flat}) && has(self.{block}) && has(self.{block}.{nested}))"),
        &format!("{flat} and {block}.{nested} are two spellings of one setting: remove one"),
    )
}

fn selector() -> JSONSchemaProps {
    let requirement = object([
        ("key", bounded_text(1, 317)),
        ("operator", string()),
        ("values", list_of(string()).list_type("atomic")),
    ])
    .required(&["key", "operator"]);
    object([
        ("matchLabels", map_of(string())),
        ("matchExpressions", list_of(requirement).list_type("atomic")),
    ])
    .atomic_map()
    .rule(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
         (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        "a selector without labels would check every machine of the namespace: name at least one label",
    )
}

/// A duration that Cluster API would not turn into another one.
fn timeout() -> JSONSchemaProps {
    whole_seconds(duration().at_most_long(64)).rule(
        "duration(self) == duration('0s') || duration(self) >= duration('1s')",
        "a duration between 0 and 1s is not possible, because times of conditions are whole seconds: write 0s or at least 1s",
    )
}

/// Refuses fractions of a second beyond the first one: times of conditions have whole seconds.
fn whole_seconds(duration: JSONSchemaProps) -> JSONSchemaProps {
    duration.rule(
        "duration(self) < duration('1s') || duration(self).getMilliseconds() % 1000 == 0",
        "a duration must be a number of whole seconds, as times of conditions are: write for example 1s or 2s",
    )
}

fn startup_timeout() -> JSONSchemaProps {
    duration().at_most_long(64).rule(
        "duration(self) == duration('0s') || duration(self) >= duration('30s')",
        "a node does not join in less than 30s: write 30s or more, or 0s to never remediate machines whose node does not join",
    )
}

fn condition_fields(timeout: (&str, JSONSchemaProps)) -> JSONSchemaProps {
    let name = timeout.0.to_owned();
    object([("type", bounded_text(1, 316)), ("status", bounded_text(1, 64)), timeout])
        .required(&["type", "status", &name])
}

fn conditions(timeout: JSONSchemaProps) -> JSONSchemaProps {
    list_of(condition_fields(("timeout", timeout)))
        .list_type("atomic")
        .at_most(CONDITIONS)
}

fn machine_conditions(timeout: JSONSchemaProps) -> JSONSchemaProps {
    list_of(of_machine(condition_fields(("timeout", timeout))))
        .list_type("atomic")
        .at_most(CONDITIONS)
}

/// Refuses conditions that the check, or the controller of the machine, writes itself.
fn of_machine(fields: JSONSchemaProps) -> JSONSchemaProps {
    let own = keys::RESERVED_CONDITIONS.join("', '");
    fields
        .rule(
            &format!("!(self.type in ['Ready', 'Available', '{own}'])"),
            &format!(
                "type must not be Ready, Available, {}: they are results of checks; use unhealthyConditions for conditions \
                 of Nodes",
                keys::RESERVED_CONDITIONS.join(" or ")
            ),
        )
        .rule(
            "!self.type.startsWith('Phase=') || self.status == 'True'",
            "a phase is compared with status \"True\": set status to \"True\"",
        )
}

fn in_seconds(fields: fn(JSONSchemaProps) -> JSONSchemaProps) -> JSONSchemaProps {
    list_of(fields(condition_fields(("timeoutSeconds", count()))))
        .list_type("atomic")
        .at_most(CONDITIONS)
}

fn checks() -> JSONSchemaProps {
    object([
        (
            "nodeStartupTimeoutSeconds",
            count().rule(
                "self == 0 || self >= 30",
                "a node does not join in less than 30 seconds: write 30 or more, or 0 to never remediate machines whose node \
                 does not join",
            ),
        ),
        ("unhealthyNodeConditions", in_seconds(|fields| fields)),
        ("unhealthyMachineConditions", in_seconds(of_machine)),
    ])
}

fn remediation() -> JSONSchemaProps {
    object([
        (
            "triggerIf",
            object([("unhealthyLessThanOrEqualTo", limit()), ("unhealthyInRange", range())]),
        ),
        ("templateRef", template()),
    ])
}

/// A number or a percentage up to 100, and more than none.
fn places() -> JSONSchemaProps {
    limit().rule(
        "type(self) == int ? self > 0 : !(self in ['0%', '00%'])",
        "0 remediates nothing: write 1 or more, or pause the check with the annotation machine.sapcloud.io/paused",
    )
}

/// A number or a percentage up to 100.
fn limit() -> JSONSchemaProps {
    count_or_percentage().with_pattern("^(100|[0-9]{1,2})%$")
}

fn range() -> JSONSchemaProps {
    bounded_text(5, 32).with_pattern(r"^\[[0-9]{1,9}-[0-9]{1,9}\]$").rule(
        // A text that does not match the pattern is refused by the pattern alone.
        r"!self.matches('^\\[[0-9]{1,9}-[0-9]{1,9}\\]$') || int(self.substring(1, self.indexOf('-'))) <= int(self.substring(self.indexOf('-') + 1, size(self) - 1))",
        "the first number of a range must not be greater than the second: write for example [2-3]",
    )
}

fn template() -> JSONSchemaProps {
    object([
        ("apiVersion", bounded_text(1, 317)),
        ("kind", bounded_text(1, 63)),
        ("name", bounded_text(1, 253)),
        (
            "namespace",
            bounded_text(0, 63).described("Only the namespace of the check is possible."),
        ),
    ])
    .required(&["apiVersion", "kind", "name"])
    .rule(
        "self.kind.endsWith('Template') && size(self.kind) > size('Template')",
        "kind must end with Template: requests have the kind without it",
    )
}

fn escalations() -> JSONSchemaProps {
    let minute = whole_seconds(duration().at_most_long(64)).rule(
        "duration(self) >= duration('1m')",
        "a timeout of less than 1m gives no remediation a chance: write 1m or more",
    );
    let one = object([
        ("remediationTemplate", template()),
        ("order", count()),
        ("timeout", minute),
    ])
    .required(&["remediationTemplate", "order", "timeout"]);
    list_of(one).list_type("atomic").at_most(ESCALATIONS).rule(
        "self.all(one, self.exists_one(other, other.order == one.order))",
        "each order must occur once: give every template another one",
    )
}

fn status() -> JSONSchemaProps {
    let condition = object([
        ("type", string()),
        ("status", string()),
        ("observedGeneration", revision()),
        ("lastTransitionTime", time()),
        ("reason", string()),
        ("message", string()),
    ])
    .required(&["lastTransitionTime", "message", "reason", "status", "type"]);
    let unhealthy = object([
        ("machine", string()),
        ("reason", string()),
        ("message", string()),
        ("since", time()),
        ("nextCheck", time()),
    ])
    .required(&["machine", "reason"]);
    let request = object([
        ("machine", string()),
        ("uid", string()),
        ("apiVersion", string()),
        ("kind", string()),
        ("template", string()),
        ("order", count()),
        ("since", time()),
    ])
    .required(&["apiVersion", "kind", "machine", "template", "uid"]);
    let most = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    object([
        ("expectedMachines", count().described("Machines that are checked.")),
        ("currentHealthy", count().described("Those of them that are healthy.")),
        (
            "remediationsAllowed",
            count().described("How many more machines may become unhealthy before remediation stops."),
        ),
        (
            "targets",
            list_of(string())
                .list_type("atomic")
                .at_most(most(MachineHealthCheckStatus::MAX_TARGETS))
                .described("The names of the checked machines."),
        ),
        (
            "unhealthy",
            list_of(unhealthy)
                .list_type("atomic")
                .at_most(most(MachineHealthCheckStatus::MAX_UNHEALTHY))
                .described("The machines that are not healthy, why, and when they are checked again."),
        ),
        (
            "remediations",
            list_of(request)
                .list_type("atomic")
                .described("Requests to other controllers, from before their creation until they are gone."),
        ),
        (
            "tooManySince",
            time().described("Since when too many machines are unhealthy."),
        ),
        (
            "cooldownUntil",
            time().described("When remediation may begin again after too many machines were unhealthy."),
        ),
        ("observedGeneration", revision()),
        ("conditions", list_of(condition)),
    ])
}
