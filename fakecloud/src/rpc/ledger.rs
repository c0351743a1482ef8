//! Conversions between the ledger's other objects and messages of the control contract: disks, interfaces, volumes,
//! limits, zones, findings; and pagination.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tonic::Status;

use super::units::time;
use crate::model::{
    Disk, Finding, FindingKind, LimitKind, Looking, MachineType, Nic, NicFlags, VmLimit, VmUpdate, Volume, ZoneFailure,
    ZoneOutage,
};
use crate::proto;

pub(super) fn disk(disk: &Disk) -> proto::Disk {
    proto::Disk {
        id: disk.id.clone(),
        name: disk.name.clone(),
        vm_id: disk.vm.clone().unwrap_or_default(),
        machine: disk.owner.key(),
        machine_uid: disk.owner.uid.clone(),
        zone: disk.zone.clone(),
        size: disk.size.clone(),
        r#type: disk.kind.clone(),
        boot: disk.boot,
        tags: disk.tags.clone(),
        created_unix_nanos: time(disk.created),
    }
}

pub(super) fn nic(nic: &Nic) -> proto::Nic {
    proto::Nic {
        id: nic.id.clone(),
        name: nic.name.clone(),
        vm_id: nic.vm.clone().unwrap_or_default(),
        machine: nic.owner.key(),
        machine_uid: nic.owner.uid.clone(),
        network: nic.network.clone(),
        flags: Some(proto::NicFlags {
            source_destination_check: nic.flags.source_destination_check,
            ipv6: nic.flags.ipv6,
        }),
        tags: nic.tags.clone(),
        created_unix_nanos: time(nic.created),
    }
}

pub(super) fn volume(volume: &Volume) -> proto::Volume {
    proto::Volume {
        id: volume.id.clone(),
        zone: volume.zone.clone(),
        size: volume.size.clone(),
        vm_id: volume.vm.clone().unwrap_or_default(),
        created_unix_nanos: time(volume.created),
    }
}

pub(super) fn machine_type(of: &MachineType) -> proto::MachineType {
    proto::MachineType {
        cpu: of.cpu.clone(),
        memory: of.memory.clone(),
        gpu: of.gpu.clone().unwrap_or_default(),
        pods: of.pods,
        architecture: of.architecture.clone(),
        price: of.price.clone().unwrap_or_default(),
    }
}

pub(super) fn read_update(request: proto::UpdateVmRequest) -> VmUpdate {
    let flags = |flags: proto::NicFlags| NicFlags {
        source_destination_check: flags.source_destination_check,
        ipv6: flags.ipv6,
    };
    VmUpdate {
        set_tags: request.set_tags,
        remove_tags: request.remove_tags.into_iter().collect(),
        nics: request.nics.into_iter().map(|(name, of)| (name, flags(of))).collect(),
    }
}

pub(super) fn limit(kind: LimitKind, (limit, used): (VmLimit, u32)) -> proto::Limit {
    let kind = match kind {
        LimitKind::Quota => proto::LimitKind::Quota,
        LimitKind::Capacity => proto::LimitKind::Capacity,
    };
    proto::Limit {
        kind: kind.into(),
        machine_type: limit.machine_type,
        zone: limit.zone,
        vms: limit.vms,
        used,
    }
}

pub(super) fn read_limit_kind(number: i32) -> Result<LimitKind, Status> {
    match proto::LimitKind::try_from(number) {
        Ok(proto::LimitKind::Quota) => Ok(LimitKind::Quota),
        Ok(proto::LimitKind::Capacity) => Ok(LimitKind::Capacity),
        Ok(proto::LimitKind::Unspecified) | Err(_) => Err(Status::invalid_argument(
            "kind: must be LIMIT_KIND_QUOTA or LIMIT_KIND_CAPACITY",
        )),
    }
}

pub(super) fn outage(outage: &ZoneOutage) -> proto::ZoneOutage {
    let failure = match outage.failure {
        ZoneFailure::Api => proto::ZoneFailure::Api,
        ZoneFailure::Compute => proto::ZoneFailure::Compute,
        ZoneFailure::Both => proto::ZoneFailure::Both,
        ZoneFailure::BrownOut => proto::ZoneFailure::BrownOut,
    };
    proto::ZoneOutage {
        zone: outage.zone.clone(),
        failure: failure.into(),
        since_unix_nanos: time(outage.since),
        until_unix_nanos: outage.until.map_or(0, time),
        hits: outage.hits,
    }
}

pub(super) fn read_outage(
    request: proto::FailZoneRequest,
    now: Timestamp,
) -> Result<(ZoneOutage, Option<Duration>), Status> {
    let failure = match proto::ZoneFailure::try_from(request.failure) {
        Ok(proto::ZoneFailure::Api) => ZoneFailure::Api,
        Ok(proto::ZoneFailure::Compute) => ZoneFailure::Compute,
        Ok(proto::ZoneFailure::Both) => ZoneFailure::Both,
        Ok(proto::ZoneFailure::BrownOut) => ZoneFailure::BrownOut,
        Ok(proto::ZoneFailure::Unspecified) | Err(_) => {
            return Err(Status::invalid_argument(
                "failure: must be ZONE_FAILURE_API, ZONE_FAILURE_COMPUTE, ZONE_FAILURE_BOTH or ZONE_FAILURE_BROWN_OUT",
            ));
        }
    };
    let mut outage = ZoneOutage::new(request.zone, failure, now);
    outage.error_percent = request.error_percent.unwrap_or(outage.error_percent);
    if !request.latency.is_empty() {
        let latency = request.latency.parse();
        outage.latency = latency.map_err(|reason| Status::invalid_argument(format!("latency: {reason}")))?;
    }
    Ok((outage, request.lasts_nanos.map(Duration::from_nanos)))
}

pub(super) fn finding(finding: Finding) -> proto::Finding {
    let kind = match finding.kind {
        FindingKind::OrphanVm => proto::FindingKind::OrphanVm,
        FindingKind::OrphanDisk => proto::FindingKind::OrphanDisk,
        FindingKind::OrphanNic => proto::FindingKind::OrphanNic,
        FindingKind::DuplicateVm => proto::FindingKind::DuplicateVm,
        FindingKind::HealthyVmDeleted => proto::FindingKind::HealthyVmDeleted,
        FindingKind::CallWhileFrozen => proto::FindingKind::CallWhileFrozen,
    };
    proto::Finding {
        kind: kind.into(),
        subject: finding.subject,
        machine: finding.machine,
        machine_uid: finding.machine_uid,
        time_unix_nanos: time(finding.time),
        message: finding.message,
    }
}

pub(super) fn read_looking(request: proto::AuditLedgerRequest) -> Looking {
    Looking {
        machine_uids: request
            .machines
            .map(|machines| machines.uids.into_iter().collect::<BTreeSet<_>>()),
        grace: Duration::from_nanos(request.grace_nanos),
    }
}

/// Whether an object has all of these tags.
pub(super) fn has_tags(tags: &BTreeMap<String, String>, required: &BTreeMap<String, String>) -> bool {
    required.iter().all(|(key, value)| tags.get(key) == Some(value))
}

/// A page of items with ascending keys: at most `size` items (0: all) after the key in `token`; and the next token.
pub(super) fn page<T>(
    all: impl Iterator<Item = T>,
    key: impl Fn(&T) -> String,
    size: u32,
    token: &str,
) -> (Vec<T>, String) {
    let size = if size == 0 { usize::MAX } else { size as usize };
    let mut found: Vec<T> = all
        .filter(|item| token.is_empty() || key(item).as_str() > token)
        .take(size.saturating_add(1))
        .collect();
    let more = found.len() > size;
    found.truncate(size);
    let next = found.last().filter(|_| more).map(key).unwrap_or_default();
    (found, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_everything_without_gap_or_overlap() {
        let all: Vec<u32> = (0..23).collect();
        let key = |number: &u32| format!("{number:020}");
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let (found, next) = page(all.iter().copied(), key, 5, &token);
            assert!(found.len() <= 5);
            seen.extend(found);
            if next.is_empty() {
                break;
            }
            token = next;
        }
        assert_eq!(seen, all);
        assert_eq!(page(all.iter().copied(), key, 0, ""), (all.clone(), String::new()));
        assert_eq!(page(all.iter().copied(), key, 23, "").1, "");
    }
}
