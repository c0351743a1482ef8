//! `fakecloud vms` and `fakecloud vm`.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use mcm_api::duration::GoDuration;
use serde::Serialize;
use terminal::{Column, OutputFormat, Row};

use super::output;
use super::{Client, call};
use crate::proto;
use crate::proto::vm_reference::By;

/// Number of VMs per page.
const PAGE: u32 = 1000;

/// Filter and format of a list of VMs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fakecloud vms\n  fakecloud vms --machine 'm-*' --all -o wide")]
pub struct List {
    /// Only machines of this NAME or NAMESPACE/NAME; a glob
    #[arg(long, default_value = "")]
    machine: String,
    /// Only VMs of this zone; a glob
    #[arg(long, default_value = "")]
    zone: String,
    /// Only VMs with this tag; can be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag)]
    tag: Vec<(String, String)>,
    /// Include terminated VMs
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputFormat,
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// A VM, by its id, its provider id, or the NAME or NAMESPACE/NAME of its machine.
#[derive(Args, Debug)]
pub struct Which {
    /// The VM: its id, its provider id, or the NAME or NAMESPACE/NAME of its machine
    vm: String,
}

/// An action on a VM.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Kill it: it stops and still exists
    #[command(after_help = "Example:\n  fakecloud vm kill vm-1f0c2a")]
    Kill(Which),
    /// Switch it off
    #[command(after_help = "Example:\n  fakecloud vm stop m-1")]
    Stop(Which),
    /// Start a stopped VM
    #[command(after_help = "Example:\n  fakecloud vm start m-1")]
    Start(Which),
    /// Restart a running VM
    #[command(after_help = "Example:\n  fakecloud vm reboot default/m-1")]
    Reboot(Which),
    /// Delete it without the controller's knowledge
    #[command(after_help = "Example:\n  fakecloud vm delete m-1")]
    Delete(Which),
    /// Preempt it: it stops after the notice
    #[command(after_help = "Example:\n  fakecloud vm preempt m-1 --notice 30s")]
    Preempt {
        #[command(flatten)]
        which: Which,
        /// Time between the condition of its Node and the stop, as a Go duration
        #[arg(long, default_value = "2m")]
        notice: GoDuration,
    },
    /// Panic its kernel: nothing on it runs until the next boot
    #[command(after_help = "Example:\n  fakecloud vm panic m-1")]
    Panic(Which),
    /// Fill its disk: its Node has DiskPressure
    #[command(after_help = "Example:\n  fakecloud vm fill-disk m-1")]
    FillDisk(Which),
    /// Hold it: it makes no transition until it is released
    #[command(after_help = "Example:\n  fakecloud vm hold m-1")]
    Hold(Which),
    /// Release it
    #[command(after_help = "Example:\n  fakecloud vm release m-1")]
    Release(Which),
    /// Make one transition of a held VM
    #[command(after_help = "Example:\n  fakecloud vm step m-1")]
    Step(Which),
    /// Change tags
    #[command(after_help = "Example:\n  fakecloud vm tag m-1 owner=me kubernetes.io/role/node-")]
    Tag {
        #[command(flatten)]
        which: Which,
        /// KEY=VALUE sets a tag, KEY- removes it
        #[arg(required = true)]
        tags: Vec<String>,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VmRow {
    id: String,
    machine: String,
    state: String,
    reason: String,
    zone: String,
    machine_type: String,
    provider_id: String,
    created: String,
    tags: BTreeMap<String, String>,
    disks: usize,
    nics: usize,
    volumes: Vec<String>,
}

impl VmRow {
    fn new(vm: proto::Vm) -> Self {
        let state = vm.state().as_str_name().trim_start_matches("VM_STATE_").to_lowercase();
        let machine = match vm.machine_namespace.as_str() {
            "" => vm.machine,
            namespace => format!("{namespace}/{}", vm.machine),
        };
        Self {
            id: vm.id,
            machine,
            state,
            reason: vm.state_reason,
            zone: vm.zone,
            machine_type: vm.machine_type,
            provider_id: vm.provider_id,
            created: output::time(vm.created_unix_nanos),
            tags: vm.tags,
            disks: vm.disks.len(),
            nics: vm.nics.len(),
            volumes: vm.volumes,
        }
    }
}

impl Row for VmRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("ID"),
        Column::Shown("MACHINE"),
        Column::Shown("STATE"),
        Column::Shown("ZONE"),
        Column::Shown("TYPE"),
        Column::Shown("CREATED"),
        Column::Shown("REASON"),
        Column::Wide("PROVIDER ID"),
        Column::Wide("VOLUMES"),
        Column::Wide("TAGS"),
    ];

    fn cells(&self) -> Vec<String> {
        let tags: Vec<String> = self.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        [
            &self.id,
            &self.machine,
            &self.state,
            &self.zone,
            &self.machine_type,
            &self.created,
            &self.reason,
            &self.provider_id,
            &self.volumes.join(","),
            &tags.join(","),
        ]
        .map(String::clone)
        .to_vec()
    }
}

impl List {
    pub(super) async fn perform(self, client: &mut Client, out: &mut impl Write) -> anyhow::Result<()> {
        let tags: BTreeMap<String, String> = self.tag.into_iter().collect();
        let (mut rows, mut page_token) = (Vec::new(), String::new());
        loop {
            let list = call(client.list_vms(proto::ListVmsRequest {
                machine: self.machine.clone(),
                include_terminated: self.all,
                tags: tags.clone(),
                zone: self.zone.clone(),
                page_size: PAGE,
                page_token,
            }))
            .await?;
            rows.extend(list.vms.into_iter().map(VmRow::new));
            page_token = list.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        output::print(self.output.format, &rows, out)
    }
}

impl Which {
    fn reference(self) -> proto::VmReference {
        let by = if self.vm.starts_with("fakecloud://") {
            By::ProviderId(self.vm)
        } else if self.vm.starts_with("vm-") && !self.vm.contains('/') {
            By::Id(self.vm)
        } else {
            By::Machine(self.vm)
        };
        proto::VmReference { by: Some(by) }
    }
}

impl Action {
    pub(super) async fn perform(self, client: &mut Client, out: &mut impl Write) -> anyhow::Result<()> {
        let vm = match self {
            Self::Kill(which) => call(client.kill_vm(which.reference())).await?,
            Self::Stop(which) => call(client.stop_vm(which.reference())).await?,
            Self::Start(which) => call(client.start_vm(which.reference())).await?,
            Self::Reboot(which) => call(client.reboot_vm(which.reference())).await?,
            Self::Delete(which) => call(client.delete_vm(which.reference())).await?,
            Self::Preempt { which, notice } => {
                let request = proto::PreemptVmRequest {
                    vm: Some(which.reference()),
                    notice_nanos: u64::try_from(notice.0.as_nanos()).unwrap_or(u64::MAX),
                };
                call(client.preempt_vm(request)).await?
            }
            Self::Panic(which) => call(client.panic_vm(which.reference())).await?,
            Self::FillDisk(which) => call(client.fill_disk(which.reference())).await?,
            Self::Step(which) => call(client.step(which.reference())).await?,
            Self::Hold(which) => {
                let vm = call(client.get_vm(which.reference())).await?;
                let hold = proto::HoldRequest { pattern: vm.id.clone() };
                first(call(client.hold(hold)).await?)?
            }
            Self::Release(which) => {
                let vm = call(client.get_vm(which.reference())).await?;
                let hold = proto::HoldRequest { pattern: vm.id.clone() };
                first(call(client.release(hold)).await?)?
            }
            Self::Tag { which, tags } => {
                let mut request = proto::UpdateVmRequest {
                    vm: Some(which.reference()),
                    ..proto::UpdateVmRequest::default()
                };
                for text in tags {
                    match text.strip_suffix('-') {
                        Some(key) if !text.contains('=') => request.remove_tags.push(key.to_owned()),
                        _ => {
                            let (key, value) = tag(&text).map_err(|error| anyhow!("{text:?}: {error}"))?;
                            request.set_tags.insert(key, value);
                        }
                    }
                }
                call(client.update_vm(request)).await?
            }
        };
        writeln!(out, "{} is {}: {}", vm.id, state(&vm), vm.state_reason).context("cannot write to standard output")
    }
}

fn first(reply: proto::HoldReply) -> anyhow::Result<proto::Vm> {
    reply.vms.into_iter().next().context("the VM no longer exists")
}

fn state(vm: &proto::Vm) -> String {
    let state = vm.state().as_str_name().trim_start_matches("VM_STATE_").to_lowercase();
    if vm.held { format!("{state} and held") } else { state }
}
