//! The control contract over the model.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use futures::stream;
use jiff::Timestamp;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use super::{convert, kubelets, ledger, rules, units};
use crate::model::{Cloud, CommandError, LimitKind, Reference, Vm, VmState};
use crate::{Fakecloud, Token, glob, proto};

/// Maximum number of records of one page or one read of the log.
const PAGE: usize = 1000;

/// The control contract of a cloud.
#[derive(Clone, Debug)]
pub struct ControlService {
    cloud: Fakecloud,
}

/// A stream of the log's records.
type Records = Pin<Box<dyn Stream<Item = Result<proto::Record, Status>> + Send>>;

impl ControlService {
    pub(crate) fn new(cloud: Fakecloud) -> Self {
        Self { cloud }
    }

    /// A command for one VM; returns the resulting VM.
    fn command(
        &self,
        request: Request<proto::VmReference>,
        command: impl for<'a> FnOnce(&'a mut Cloud, &Reference, Timestamp) -> Result<&'a Vm, CommandError>,
    ) -> Result<Response<proto::Vm>, Status> {
        let reference = convert::reference(request.into_inner())?;
        self.cloud.step(|cloud, now| {
            let id = command(cloud, &reference, now).map(|vm| vm.id.clone());
            let id = id.map_err(|error| convert::command_error(&error))?;
            let vm = cloud
                .vm(&id)
                .ok_or_else(|| Status::not_found(format!("VM {id} is no longer kept")))?;
            Ok(Response::new(convert::vm(cloud, vm)))
        })
    }

    /// A command for the kubelet of one VM; returns the resulting kubelet.
    fn kubelet_command(
        &self,
        vm: Option<proto::VmReference>,
        command: impl for<'a> FnOnce(&'a mut Cloud, &Reference, Timestamp) -> Result<&'a Vm, CommandError>,
    ) -> Result<Response<proto::Kubelet>, Status> {
        let reference = convert::reference(vm.unwrap_or_default())?;
        let running = self.cloud.kubelets();
        self.cloud.step(|cloud, now| {
            let vm = command(cloud, &reference, now).map_err(|error| convert::command_error(&error))?;
            let view = running.view(vm.ordinal, now);
            Ok(Response::new(kubelets::kubelet(vm, view, now)))
        })
    }

    /// A change of the holds; returns the active ones, and the affected VMs.
    fn change_holds(
        &self,
        request: Request<proto::HoldRequest>,
        change: impl for<'a> FnOnce(&'a mut Cloud, &str, Timestamp) -> Result<Vec<&'a Vm>, CommandError>,
    ) -> Result<Response<proto::HoldReply>, Status> {
        let pattern = request.into_inner().pattern;
        self.cloud.step(|cloud, now| {
            let vms = change(cloud, &pattern, now).map_err(|error| convert::command_error(&error))?;
            let ids: Vec<String> = vms.iter().map(|vm| vm.id.clone()).collect();
            let vms = ids
                .iter()
                .filter_map(|id| cloud.vm(id))
                .map(|vm| convert::vm(cloud, vm))
                .collect();
            Ok(Response::new(proto::HoldReply {
                holds: cloud.holds().iter().cloned().collect(),
                vms,
            }))
        })
    }

    fn info(&self) -> proto::InfoReply {
        self.cloud.step(|cloud, now| {
            cloud.advance(now);
            let settings = cloud.settings();
            proto::InfoReply {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                now_unix_nanos: units::time(now),
                duplicate_creates: convert::duplicates(settings.duplicate_creates).into(),
                require_initialize: settings.require_initialize,
                live_vms: cloud.live_count() as u64,
                last_sequence: cloud.log().last(),
                holds: cloud.holds().iter().cloned().collect(),
                machine_types: settings.machine_types.keys().cloned().collect(),
                zones: settings.all_zones(),
                types: settings
                    .machine_types
                    .iter()
                    .map(|(name, of)| (name.clone(), ledger::machine_type(of)))
                    .collect(),
                regions: settings
                    .regions
                    .iter()
                    .map(|(region, zones)| (region.clone(), proto::ZoneNames { names: zones.clone() }))
                    .collect(),
                images: settings.images.clone(),
                required_tags: settings.required_tags.clone(),
                frozen_unix_nanos: cloud.frozen().map_or(0, units::time),
            }
        })
    }

    fn limits(&self) -> proto::LimitList {
        self.cloud.step(|cloud, now| {
            cloud.advance(now);
            let of = |kind| {
                cloud
                    .limits(kind)
                    .into_iter()
                    .map(move |entry| ledger::limit(kind, entry))
            };
            proto::LimitList {
                limits: of(LimitKind::Quota).chain(of(LimitKind::Capacity)).collect(),
            }
        })
    }

    fn zones(&self) -> proto::ZoneList {
        self.cloud.step(|cloud, now| {
            cloud.advance(now);
            proto::ZoneList {
                outages: cloud.zone_outages().map(ledger::outage).collect(),
            }
        })
    }
}

#[tonic::async_trait]
impl proto::cloud_server::Cloud for ControlService {
    type WatchStream = Records;

    async fn info(&self, _: Request<proto::InfoRequest>) -> Result<Response<proto::InfoReply>, Status> {
        Ok(Response::new(self.info()))
    }

    async fn list_vms(&self, request: Request<proto::ListVmsRequest>) -> Result<Response<proto::VmList>, Status> {
        let request = request.into_inner();
        let list = self.cloud.step(|cloud, now| {
            cloud.advance(now);
            let wanted = |vm: &&Vm| {
                (request.include_terminated || vm.state != VmState::Terminated)
                    && (request.machine.is_empty() || glob::matches_machine(&request.machine, &vm.owner.key()))
                    && (request.zone.is_empty() || glob::matches(&request.zone, &vm.zone))
                    && ledger::has_tags(&vm.tags, &request.tags)
            };
            let key = |vm: &&Vm| format!("{:020}", vm.ordinal);
            let vms = cloud.vms().filter(wanted);
            let (vms, next_page_token) = ledger::page(vms, key, request.page_size, &request.page_token);
            proto::VmList {
                vms: vms.into_iter().map(|vm| convert::vm(cloud, vm)).collect(),
                next_page_token,
            }
        });
        Ok(Response::new(list))
    }

    async fn get_vm(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, |cloud, reference, now| {
            cloud.advance(now);
            cloud.find(reference)
        })
    }

    async fn kill_vm(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::kill_vm)
    }

    async fn stop_vm(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::stop_vm)
    }

    async fn start_vm(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::start_vm)
    }

    async fn reboot_vm(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::reboot_vm)
    }

    async fn delete_vm(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::delete_vm)
    }

    async fn preempt_vm(&self, request: Request<proto::PreemptVmRequest>) -> Result<Response<proto::Vm>, Status> {
        let proto::PreemptVmRequest { vm, notice_nanos } = request.into_inner();
        let notice = Duration::from_nanos(notice_nanos);
        self.command(Request::new(vm.unwrap_or_default()), |cloud, reference, now| {
            cloud.preempt_vm(reference, notice, now)
        })
    }

    async fn panic_vm(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::panic_vm)
    }

    async fn fill_disk(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::fill_disk)
    }

    async fn update_vm(&self, request: Request<proto::UpdateVmRequest>) -> Result<Response<proto::Vm>, Status> {
        let mut request = request.into_inner();
        let reference = convert::reference(request.vm.take().unwrap_or_default())?;
        let update = ledger::read_update(request);
        self.cloud.step(|cloud, now| {
            let updated = cloud.update_vm(&reference, &update, now).map(|vm| vm.ordinal);
            let ordinal = updated.map_err(convert::refusal)?;
            let vm = cloud.vms().find(|vm| vm.ordinal == ordinal);
            let vm = vm.ok_or_else(|| Status::not_found("the VM is no longer kept"))?;
            Ok(Response::new(convert::vm(cloud, vm)))
        })
    }

    async fn list_disks(&self, request: Request<proto::ListPartsRequest>) -> Result<Response<proto::DiskList>, Status> {
        let request = request.into_inner();
        let (disks, next_page_token) = self.cloud.step(|cloud, now| {
            cloud.advance(now);
            let all = cloud.disks().filter(|disk| {
                (request.machine.is_empty() || glob::matches_machine(&request.machine, &disk.owner.key()))
                    && (!request.left_behind || disk.vm.is_none())
                    && ledger::has_tags(&disk.tags, &request.tags)
            });
            let all = all.map(ledger::disk);
            ledger::page(all, |disk| disk.id.clone(), request.page_size, &request.page_token)
        });
        Ok(Response::new(proto::DiskList { disks, next_page_token }))
    }

    async fn list_nics(&self, request: Request<proto::ListPartsRequest>) -> Result<Response<proto::NicList>, Status> {
        let request = request.into_inner();
        let (nics, next_page_token) = self.cloud.step(|cloud, now| {
            cloud.advance(now);
            let all = cloud.nics().filter(|nic| {
                (request.machine.is_empty() || glob::matches_machine(&request.machine, &nic.owner.key()))
                    && (!request.left_behind || nic.vm.is_none())
                    && ledger::has_tags(&nic.tags, &request.tags)
            });
            let all = all.map(ledger::nic);
            ledger::page(all, |nic| nic.id.clone(), request.page_size, &request.page_token)
        });
        Ok(Response::new(proto::NicList { nics, next_page_token }))
    }

    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::Volume>, Status> {
        let proto::CreateVolumeRequest { id, zone, size } = request.into_inner();
        let created = self
            .cloud
            .step(|cloud, now| cloud.create_volume(&id, &zone, &size, now));
        created
            .map(|created| Response::new(ledger::volume(&created)))
            .map_err(convert::refusal)
    }

    async fn delete_volume(
        &self,
        request: Request<proto::VolumeReference>,
    ) -> Result<Response<proto::DeleteVolumeReply>, Status> {
        let id = request.into_inner().id;
        let deleted = self.cloud.step(|cloud, now| cloud.delete_volume(&id, now));
        deleted
            .map(|()| Response::new(proto::DeleteVolumeReply {}))
            .map_err(convert::refusal)
    }

    async fn list_volumes(
        &self,
        request: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::VolumeList>, Status> {
        let request = request.into_inner();
        let (volumes, next_page_token) = self.cloud.step(|cloud, now| {
            cloud.advance(now);
            let all = cloud.volumes();
            let all = all.filter(|volume| request.vm_id.is_empty() || volume.vm.as_ref() == Some(&request.vm_id));
            let all = all.map(ledger::volume);
            ledger::page(all, |volume| volume.id.clone(), request.page_size, &request.page_token)
        });
        Ok(Response::new(proto::VolumeList {
            volumes,
            next_page_token,
        }))
    }

    async fn attach_volume(
        &self,
        request: Request<proto::AttachVolumeRequest>,
    ) -> Result<Response<proto::Volume>, Status> {
        let proto::AttachVolumeRequest { id, vm } = request.into_inner();
        let vm = convert::reference(vm.unwrap_or_default())?;
        let attached = self.cloud.step(|cloud, now| cloud.attach_volume(&id, &vm, now));
        attached
            .map(|volume| Response::new(ledger::volume(&volume)))
            .map_err(convert::refusal)
    }

    async fn detach_volume(&self, request: Request<proto::VolumeReference>) -> Result<Response<proto::Volume>, Status> {
        let id = request.into_inner().id;
        let detached = self.cloud.step(|cloud, now| cloud.detach_volume(&id, now));
        detached
            .map(|volume| Response::new(ledger::volume(&volume)))
            .map_err(convert::refusal)
    }

    async fn list_limits(&self, _: Request<proto::ListLimitsRequest>) -> Result<Response<proto::LimitList>, Status> {
        Ok(Response::new(self.limits()))
    }

    async fn set_limit(&self, request: Request<proto::SetLimitRequest>) -> Result<Response<proto::LimitList>, Status> {
        let proto::SetLimitRequest {
            kind,
            machine_type,
            zone,
            vms,
        } = request.into_inner();
        let kind = ledger::read_limit_kind(kind)?;
        let glob = |text: String| if text.is_empty() { "*".to_owned() } else { text };
        let (machine_type, zone) = (glob(machine_type), glob(zone));
        self.cloud
            .step(|cloud, now| cloud.set_limit(kind, &machine_type, &zone, vms, now))
            .map_err(|error| convert::command_error(&error))?;
        Ok(Response::new(self.limits()))
    }

    async fn fail_zone(&self, request: Request<proto::FailZoneRequest>) -> Result<Response<proto::ZoneList>, Status> {
        let request = request.into_inner();
        self.cloud.step(|cloud, now| {
            let (outage, lasts) = ledger::read_outage(request, now)?;
            cloud
                .fail_zone(outage, lasts, now)
                .map_err(|error| convert::command_error(&error))
        })?;
        Ok(Response::new(self.zones()))
    }

    async fn mend_zone(&self, request: Request<proto::MendZoneRequest>) -> Result<Response<proto::ZoneList>, Status> {
        let zone = request.into_inner().zone;
        let restored = self.cloud.step(|cloud, now| cloud.restore_zone(&zone, now));
        restored.map_err(|error| convert::command_error(&error))?;
        Ok(Response::new(self.zones()))
    }

    async fn list_zones(&self, _: Request<proto::ListZonesRequest>) -> Result<Response<proto::ZoneList>, Status> {
        Ok(Response::new(self.zones()))
    }

    async fn audit_ledger(
        &self,
        request: Request<proto::AuditLedgerRequest>,
    ) -> Result<Response<proto::FindingList>, Status> {
        let looking = ledger::read_looking(request.into_inner());
        let findings = self.cloud.step(|cloud, now| cloud.audit_ledger(&looking, now));
        Ok(Response::new(proto::FindingList {
            findings: findings.into_iter().map(ledger::finding).collect(),
        }))
    }

    async fn set_frozen(
        &self,
        request: Request<proto::SetFrozenRequest>,
    ) -> Result<Response<proto::InfoReply>, Status> {
        let frozen = request.into_inner().frozen;
        self.cloud.step(|cloud, now| cloud.set_frozen(frozen, now));
        Ok(Response::new(self.info()))
    }

    async fn set_credentials(
        &self,
        request: Request<proto::SetCredentialsRequest>,
    ) -> Result<Response<proto::InfoReply>, Status> {
        let tokens = request.into_inner().api_tokens;
        if tokens.iter().any(String::is_empty) {
            return Err(Status::invalid_argument("api_tokens: one is empty; leave it out"));
        }
        let tokens = tokens.into_iter().map(Token::new).collect();
        self.cloud.step(|cloud, now| cloud.set_credentials(tokens, now));
        Ok(Response::new(self.info()))
    }

    async fn create_nodes(
        &self,
        request: Request<proto::CreateNodesRequest>,
    ) -> Result<Response<proto::CreateNodesReply>, Status> {
        let spec = convert::nodes(request.into_inner());
        let nodes = self.cloud.step(|cloud, now| cloud.create_nodes(spec, now));
        let nodes = nodes.map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(Response::new(proto::CreateNodesReply { nodes }))
    }

    async fn hold(&self, request: Request<proto::HoldRequest>) -> Result<Response<proto::HoldReply>, Status> {
        self.change_holds(request, Cloud::hold)
    }

    async fn release(&self, request: Request<proto::HoldRequest>) -> Result<Response<proto::HoldReply>, Status> {
        self.change_holds(request, Cloud::release)
    }

    async fn step(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, Cloud::step_vm)
    }

    async fn stop_kubelet(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, |cloud, reference, now| {
            cloud.set_kubelet(reference, false, now)
        })
    }

    async fn start_kubelet(&self, request: Request<proto::VmReference>) -> Result<Response<proto::Vm>, Status> {
        self.command(request, |cloud, reference, now| cloud.set_kubelet(reference, true, now))
    }

    async fn break_kubelet(
        &self,
        request: Request<proto::BreakKubeletRequest>,
    ) -> Result<Response<proto::Kubelet>, Status> {
        let request = request.into_inner();
        let fault = kubelets::read_fault(request.fault)?;
        let lasts = request.lasts_nanos.map(Duration::from_nanos);
        self.kubelet_command(request.vm, |cloud, vm, now| cloud.break_kubelet(vm, fault, lasts, now))
    }

    async fn mend_kubelet(
        &self,
        request: Request<proto::MendKubeletRequest>,
    ) -> Result<Response<proto::Kubelet>, Status> {
        let request = request.into_inner();
        let kinds = kubelets::read_kinds(&request.kinds)?;
        self.kubelet_command(request.vm, |cloud, vm, now| cloud.restore_kubelet(vm, &kinds, now))
    }

    async fn list_kubelets(
        &self,
        request: Request<proto::ListKubeletsRequest>,
    ) -> Result<Response<proto::KubeletList>, Status> {
        let machine = request.into_inner().machine;
        let running = self.cloud.kubelets();
        let kubelets = self.cloud.step(|cloud, now| {
            cloud.advance(now);
            let wanted = |vm: &&Vm| {
                vm.state != VmState::Terminated
                    && (machine.is_empty() || glob::matches_machine(&machine, &vm.owner.key()))
            };
            let vms = cloud.vms().filter(wanted);
            vms.map(|vm| kubelets::kubelet(vm, running.view(vm.ordinal, now), now))
                .collect()
        });
        Ok(Response::new(proto::KubeletList { kubelets }))
    }

    async fn set_node_condition(
        &self,
        request: Request<proto::SetNodeConditionRequest>,
    ) -> Result<Response<proto::Kubelet>, Status> {
        let request = request.into_inner();
        let (kind, condition) = kubelets::read_condition(request.condition)?;
        self.kubelet_command(request.vm, |cloud, vm, now| {
            cloud.set_node_condition(vm, &kind, condition, now)
        })
    }

    async fn clear_node_condition(
        &self,
        request: Request<proto::ClearNodeConditionRequest>,
    ) -> Result<Response<proto::Kubelet>, Status> {
        let request = request.into_inner();
        self.kubelet_command(request.vm, |cloud, vm, now| {
            cloud.clear_node_condition(vm, &request.r#type, now)
        })
    }

    async fn kill_container(
        &self,
        request: Request<proto::KillContainerRequest>,
    ) -> Result<Response<proto::KillContainerReply>, Status> {
        let request = request.into_inner();
        let reason = if request.out_of_memory { "OOMKilled" } else { "Error" };
        let key = (request.namespace, request.pod);
        let now = self.cloud.clock().now();
        match self
            .cloud
            .kubelets()
            .kill_container(&key, &request.container, reason, now)
        {
            Some(Ok(container)) => Ok(Response::new(proto::KillContainerReply { container })),
            Some(Err(error)) => Err(kubelets::pod_error(&error)),
            None => Err(Status::failed_precondition(
                "no kubelets are run: start fakecloud without --without-kubelets",
            )),
        }
    }

    async fn add_fault(&self, request: Request<proto::Fault>) -> Result<Response<proto::Fault>, Status> {
        let rule = rules::rule(request.into_inner())?;
        let fault = self.cloud.step(|cloud, now| cloud.add_fault(rule, now));
        fault
            .map(|fault| Response::new(rules::fault(fault)))
            .map_err(|error| convert::fault_error(&error))
    }

    async fn remove_fault(
        &self,
        request: Request<proto::RemoveFaultRequest>,
    ) -> Result<Response<proto::Fault>, Status> {
        let id = request.into_inner().id;
        let fault = self.cloud.step(|cloud, now| cloud.remove_fault(&id, now));
        fault
            .map(|fault| Response::new(rules::fault(fault)))
            .map_err(|error| convert::fault_error(&error))
    }

    async fn list_faults(&self, _: Request<proto::ListFaultsRequest>) -> Result<Response<proto::FaultList>, Status> {
        let faults = self.cloud.step(|cloud, _| cloud.faults().list().to_vec());
        Ok(Response::new(proto::FaultList {
            faults: faults.into_iter().map(rules::fault).collect(),
        }))
    }

    async fn audit(&self, request: Request<proto::AuditRequest>) -> Result<Response<proto::AuditPage>, Status> {
        let proto::AuditRequest { after, limit, machine } = request.into_inner();
        let limit = if limit == 0 { PAGE } else { PAGE.min(limit as usize) };
        let page = self.cloud.step(|cloud, now| {
            cloud.advance(now);
            cloud.log().page(after, limit, &machine)
        });
        let (records, more) = page.map_err(convert::forgotten)?;
        let next_after = records.last().map_or(after, |record| record.sequence);
        let records = records.iter().map(convert::record).collect();
        Ok(Response::new(proto::AuditPage {
            records,
            next_after,
            more,
        }))
    }

    async fn watch(&self, request: Request<proto::WatchRequest>) -> Result<Response<Records>, Status> {
        let after = request.into_inner().after;
        let mut reader = Reader {
            changes: self.cloud.changes(),
            cloud: self.cloud.clone(),
            after,
            read: VecDeque::new(),
            ended: false,
        };
        // The first read reports at once whether the start is still kept.
        reader.read_more()?;
        Ok(Response::new(Box::pin(stream::unfold(reader, Reader::next))))
    }

    async fn set_duplicate_creates(
        &self,
        request: Request<proto::SetDuplicateCreatesRequest>,
    ) -> Result<Response<proto::InfoReply>, Status> {
        let duplicates = convert::read_duplicates(request.into_inner().duplicate_creates)?;
        self.cloud
            .step(|cloud, now| cloud.set_duplicate_creates(duplicates, now));
        Ok(Response::new(self.info()))
    }
}

/// Reads the log from a position, and waits for more records at its end.
struct Reader {
    cloud: Fakecloud,
    changes: watch::Receiver<u64>,
    after: u64,
    read: VecDeque<proto::Record>,
    ended: bool,
}

impl Reader {
    fn read_more(&mut self) -> Result<(), Status> {
        self.changes.borrow_and_update();
        let page = self.cloud.step(|cloud, now| {
            cloud.advance(now);
            cloud.log().page(self.after, PAGE, "")
        });
        let (records, _) = page.map_err(convert::forgotten)?;
        self.after = records.last().map_or(self.after, |record| record.sequence);
        self.read.extend(records.iter().map(convert::record));
        Ok(())
    }

    /// The next record, when it exists. A reader that falls too far behind ends with an error.
    async fn next(mut self) -> Option<(Result<proto::Record, Status>, Self)> {
        while !self.ended {
            if let Some(record) = self.read.pop_front() {
                return Some((Ok(record), self));
            }
            if let Err(error) = self.read_more() {
                self.ended = true;
                return Some((Err(error), self));
            }
            if self.read.is_empty() {
                self.changes.changed().await.ok()?;
            }
        }
        None
    }
}
