//! `fakecloud zone`, `quota`, `capacity`, `audit` and `ledger`.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use mcm_api::Code;
use mcm_api::duration::GoDuration;
use serde::Serialize;
use terminal::{Column, Format, OutputFormat, Row};

use super::folder::FolderAction;
use super::output;
use super::{Client, call};
use crate::{Delay, proto};

pub(super) const QUOTA: proto::LimitKind = proto::LimitKind::Quota;
pub(super) const CAPACITY: proto::LimitKind = proto::LimitKind::Capacity;

/// The failure of a zone.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum Failure {
    /// Calls for its VMs fail; the VMs run
    Api,
    /// Its VMs stop, and no VM boots
    Compute,
    /// Both
    Both,
    /// Some calls are refused, the others are late
    #[value(alias = "brown-out")]
    BrownOut,
}

/// An action on zones.
#[derive(Debug, Subcommand)]
pub enum Zone {
    /// Make zones fail
    #[command(
        after_help = "Examples:\n  fakecloud zone fail local-1 --lasts 5m\n  fakecloud zone fail '*' --failure brownOut --errors 30"
    )]
    Fail {
        /// The zone; a glob
        zone: String,
        /// The failure
        #[arg(long, value_enum, default_value = "both")]
        failure: Failure,
        /// Duration, as a Go duration; without it until the zone is restored
        #[arg(long)]
        lasts: Option<GoDuration>,
        /// Percentage of failing calls of a brown-out [default: 50]
        #[arg(long, value_name = "PERCENT")]
        errors: Option<u32>,
        /// Delay of the other calls of a brown-out [default: 1s-10s]
        #[arg(long, value_name = "DELAY")]
        latency: Option<Delay>,
    },
    /// End a failure
    #[command(after_help = "Example:\n  fakecloud zone restore local-1")]
    #[command(alias = "mend")]
    Restore {
        /// The glob with which the zone failed
        zone: String,
    },
    /// Show the active failures
    #[command(after_help = "Example:\n  fakecloud zone list -o json")]
    List {
        #[command(flatten)]
        output: OutputFormat,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutageRow {
    zone: String,
    failure: String,
    since: String,
    until: String,
    hits: u64,
}

impl Row for OutageRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("ZONE"),
        Column::Shown("FAILURE"),
        Column::Shown("SINCE"),
        Column::Shown("UNTIL"),
        Column::Shown("CALLS"),
    ];

    fn cells(&self) -> Vec<String> {
        let own = [&self.zone, &self.failure, &self.since, &self.until].map(String::clone);
        own.into_iter().chain([self.hits.to_string()]).collect()
    }
}

fn show_zones(list: proto::ZoneList, format: Format, out: &mut impl Write) -> anyhow::Result<()> {
    let row = |outage: proto::ZoneOutage| OutageRow {
        failure: failure_name(outage.failure()).to_owned(),
        zone: outage.zone,
        since: output::time(outage.since_unix_nanos),
        until: output::time(outage.until_unix_nanos),
        hits: outage.hits,
    };
    let rows: Vec<OutageRow> = list.outages.into_iter().map(row).collect();
    output::print(format, &rows, out)
}

/// The name of a failure for `--failure`.
fn failure_name(failure: proto::ZoneFailure) -> &'static str {
    match failure {
        proto::ZoneFailure::Unspecified => "unknown",
        proto::ZoneFailure::Api => "api",
        proto::ZoneFailure::Compute => "compute",
        proto::ZoneFailure::Both => "both",
        proto::ZoneFailure::BrownOut => "brownOut",
    }
}

/// A name of the contract in the form that users write.
fn display_name(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_lowercase().replace('_', "-")
}

impl Zone {
    pub(super) async fn perform(self, client: &mut Client, out: &mut impl Write) -> anyhow::Result<()> {
        match self {
            Self::Fail {
                zone,
                failure,
                lasts,
                errors,
                latency,
            } => {
                let failure = match failure {
                    Failure::Api => proto::ZoneFailure::Api,
                    Failure::Compute => proto::ZoneFailure::Compute,
                    Failure::Both => proto::ZoneFailure::Both,
                    Failure::BrownOut => proto::ZoneFailure::BrownOut,
                };
                let request = proto::FailZoneRequest {
                    zone,
                    failure: failure.into(),
                    lasts_nanos: lasts.map(|lasts| nanos(lasts.0)),
                    error_percent: errors,
                    latency: latency.map(|latency| latency.to_string()).unwrap_or_default(),
                };
                show_zones(call(client.fail_zone(request)).await?, Format::Table, out)
            }
            Self::Restore { zone } => {
                let list = call(client.mend_zone(proto::MendZoneRequest { zone })).await?;
                show_zones(list, Format::Table, out)
            }
            Self::List { output } => {
                let list = call(client.list_zones(proto::ListZonesRequest {})).await?;
                show_zones(list, output.format, out)
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// An action on quotas or capacities.
#[derive(Debug, Subcommand)]
pub enum Limits {
    /// Show them, with the number of VMs that count
    #[command(after_help = "Examples:\n  fakecloud quota list\n  fakecloud capacity list -o json")]
    List {
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Set one
    #[command(
        after_help = "Examples:\n  fakecloud quota set 10\n  fakecloud capacity set 3 --zone local-1 --machine-type large"
    )]
    Set {
        /// Number of VMs
        vms: u32,
        #[command(flatten)]
        of: Of,
    },
    /// Remove one
    #[command(after_help = "Examples:\n  fakecloud quota lift\n  fakecloud capacity lift --zone local-1")]
    Lift(Of),
}

/// The VMs of a limit.
#[derive(Args, Debug)]
pub struct Of {
    /// Machine types that count together; a glob
    #[arg(long, default_value = "*")]
    machine_type: String,
    /// Zones that count together; a glob
    #[arg(long, default_value = "*")]
    zone: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitRow {
    machine_type: String,
    zone: String,
    vms: u32,
    used: u32,
}

impl Row for LimitRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("TYPE"),
        Column::Shown("ZONE"),
        Column::Shown("VMS"),
        Column::Shown("USED"),
    ];

    fn cells(&self) -> Vec<String> {
        let own = [self.machine_type.clone(), self.zone.clone()];
        own.into_iter()
            .chain([self.vms.to_string(), self.used.to_string()])
            .collect()
    }
}

impl Limits {
    pub(super) async fn perform(
        self,
        kind: proto::LimitKind,
        client: &mut Client,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let (format, request) = match self {
            Self::List { output } => (output.format, None),
            Self::Set { vms, of } => (Format::Table, Some((of, Some(vms)))),
            Self::Lift(of) => (Format::Table, Some((of, None))),
        };
        let list = match request {
            None => call(client.list_limits(proto::ListLimitsRequest {})).await?,
            Some((of, vms)) => {
                let request = proto::SetLimitRequest {
                    kind: kind.into(),
                    machine_type: of.machine_type,
                    zone: of.zone,
                    vms,
                };
                call(client.set_limit(request)).await?
            }
        };
        let of_kind = list.limits.into_iter().filter(|limit| limit.kind() == kind);
        let rows: Vec<LimitRow> = of_kind
            .map(|limit| LimitRow {
                machine_type: limit.machine_type,
                zone: limit.zone,
                vms: limit.vms,
                used: limit.used,
            })
            .collect();
        output::print(format, &rows, out)
    }
}

/// Filter and format of the log.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fakecloud audit --machine m-1\n  fakecloud audit -o json")]
pub struct Audit {
    /// Only records of machines of this NAME or NAMESPACE/NAME; a glob
    #[arg(long, default_value = "")]
    machine: String,
    /// Only records with a higher number
    #[arg(long, default_value_t = 0)]
    after: u64,
    /// Maximum number of records
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    #[command(flatten)]
    output: OutputFormat,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordRow {
    number: u64,
    time: String,
    kind: String,
    caller: String,
    operation: String,
    machine: String,
    vm: String,
    code: String,
    latency: String,
    fault: String,
    message: String,
}

impl Row for RecordRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("NUMBER"),
        Column::Shown("TIME"),
        Column::Shown("CALLER"),
        Column::Shown("OPERATION"),
        Column::Shown("MACHINE"),
        Column::Shown("VM"),
        Column::Shown("CODE"),
        Column::Shown("LATENCY"),
        Column::Shown("FAULT"),
        Column::Shown("MESSAGE"),
    ];

    fn cells(&self) -> Vec<String> {
        let own = [
            &self.time,
            &self.caller,
            &self.operation,
            &self.machine,
            &self.vm,
            &self.code,
            &self.latency,
            &self.fault,
            &self.message,
        ];
        [self.number.to_string()]
            .into_iter()
            .chain(own.map(String::clone))
            .collect()
    }
}

impl RecordRow {
    fn new(record: proto::Record) -> Self {
        let is_call = record.kind() == proto::RecordKind::Call;
        let code = Code::from_number(record.code).map(|code| code.name().to_owned());
        let latency = GoDuration(Duration::from_nanos(record.latency_nanos)).to_string();
        let caller = match record.client.as_str() {
            "" => record.caller.clone(),
            client => format!("{} ({client})", record.caller),
        };
        Self {
            number: record.sequence,
            time: output::time(record.time_unix_nanos),
            kind: display_name(record.kind().as_str_name(), "RECORD_KIND_"),
            caller,
            operation: record.operation,
            machine: record.machine,
            vm: record.vm_id,
            code: code.filter(|_| is_call).unwrap_or_default(),
            latency: if is_call { latency } else { String::new() },
            fault: record.fault_id,
            message: record.message,
        }
    }
}

impl Audit {
    pub(super) async fn perform(self, client: &mut Client, out: &mut impl Write) -> anyhow::Result<()> {
        let (mut rows, mut after) = (Vec::new(), self.after);
        while rows.len() < self.limit {
            let limit = u32::try_from(self.limit - rows.len()).unwrap_or_default();
            let page = call(client.audit(proto::AuditRequest {
                after,
                limit,
                machine: self.machine.clone(),
            }))
            .await?;
            rows.extend(page.records.into_iter().map(RecordRow::new));
            after = page.next_after;
            if !page.more {
                break;
            }
        }
        output::print(self.output.format, &rows, out)
    }
}

/// Parameters of an audit.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  fakecloud ledger\n  fakecloud ledger check ledger"
)]
pub struct Ledger {
    /// An action on the files of a ledger, instead of the audit of a running cloud.
    #[command(subcommand)]
    pub(super) folder: Option<FolderAction>,
    /// A file with the uids of all machines, one per line; - is standard input. Without it, VMs without a machine are
    /// not reported: kubectl get machines -A -o jsonpath='{range .items[*]}{.metadata.uid}{"\n"}{end}'
    #[arg(long, value_name = "FILE")]
    machines: Option<PathBuf>,
    /// Objects without an owner for less than this Go duration are left out
    #[arg(long, default_value = "0s")]
    grace: GoDuration,
    #[command(flatten)]
    output: OutputFormat,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FindingRow {
    finding: String,
    subject: String,
    machine: String,
    machine_uid: String,
    time: String,
    message: String,
}

impl Row for FindingRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("FINDING"),
        Column::Shown("SUBJECT"),
        Column::Shown("MACHINE"),
        Column::Shown("TIME"),
        Column::Shown("MESSAGE"),
    ];

    fn cells(&self) -> Vec<String> {
        [&self.finding, &self.subject, &self.machine, &self.time, &self.message]
            .map(String::clone)
            .to_vec()
    }
}

impl Ledger {
    pub(super) async fn perform(self, client: &mut Client, out: &mut impl Write) -> anyhow::Result<()> {
        let machines = self.machines.as_deref().map(read).transpose()?;
        let request = proto::AuditLedgerRequest {
            machines: machines.map(|text| proto::MachineUids {
                uids: text.split_whitespace().map(str::to_owned).collect(),
            }),
            grace_nanos: nanos(self.grace.0),
        };
        let list = call(client.audit_ledger(request)).await?;
        let row = |finding: proto::Finding| FindingRow {
            finding: display_name(finding.kind().as_str_name(), "FINDING_KIND_"),
            subject: finding.subject,
            machine: finding.machine,
            machine_uid: finding.machine_uid,
            time: output::time(finding.time_unix_nanos),
            message: finding.message,
        };
        let rows: Vec<FindingRow> = list.findings.into_iter().map(row).collect();
        output::print(self.output.format, &rows, out)?;
        if rows.is_empty() {
            return Ok(());
        }
        bail!("the ledger has {} findings", rows.len())
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
