//! Volumes, claims, attachments, classes, CSI.

use serde_json::Value;

use super::{NONE, UNSET, age, is_true, items, joined, name, printer, text, text_or};
use crate::resource::Printer;

pub(crate) fn volumes() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Capacity", "string", 0),
        ("Access Modes", "string", 0),
        ("Reclaim Policy", "string", 0),
        ("Status", "string", 0),
        ("Claim", "string", 0),
        ("StorageClass", "string", 0),
        ("VolumeAttributesClass", "string", 0),
        ("Reason", "string", 0),
        ("Age", "string", 0),
        ("VolumeMode", "string", 1),
    ];
    printer(&columns, |volume, now| {
        let claim = match text(volume, "/spec/claimRef/name") {
            "" => String::new(),
            name => format!("{}/{name}", text(volume, "/spec/claimRef/namespace")),
        };
        vec![
            name(volume),
            text(volume, "/spec/capacity/storage").into(),
            access_modes(volume, "/spec/accessModes").into(),
            text(volume, "/spec/persistentVolumeReclaimPolicy").into(),
            phase(volume).into(),
            claim.into(),
            text(volume, "/spec/storageClassName").into(),
            text_or(volume, "/spec/volumeAttributesClassName", UNSET).into(),
            text(volume, "/status/reason").into(),
            age(volume, now),
            text_or(volume, "/spec/volumeMode", UNSET).into(),
        ]
    })
}

pub(crate) fn claims() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Status", "string", 0),
        ("Volume", "string", 0),
        ("Capacity", "string", 0),
        ("Access Modes", "string", 0),
        ("StorageClass", "string", 0),
        ("VolumeAttributesClass", "string", 0),
        ("Age", "string", 0),
        ("VolumeMode", "string", 1),
    ];
    printer(&columns, |claim, now| {
        let bound = !text(claim, "/spec/volumeName").is_empty();
        let (capacity, modes) = if bound {
            (
                text(claim, "/status/capacity/storage"),
                access_modes(claim, "/status/accessModes"),
            )
        } else {
            ("", String::new())
        };
        vec![
            name(claim),
            phase(claim).into(),
            text(claim, "/spec/volumeName").into(),
            capacity.into(),
            modes.into(),
            text(claim, "/spec/storageClassName").into(),
            text_or(claim, "/spec/volumeAttributesClassName", UNSET).into(),
            age(claim, now),
            text_or(claim, "/spec/volumeMode", UNSET).into(),
        ]
    })
}

fn phase(object: &Value) -> &str {
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    if deleting {
        "Terminating"
    } else {
        text(object, "/status/phase")
    }
}

fn access_modes(object: &Value, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = items(object, pointer);
    joined(
        SHORT
            .into_iter()
            .filter(|(mode, _)| modes.iter().any(|found| found == mode))
            .map(|(_, short)| short),
        "",
    )
}

pub(crate) fn volume_attachments() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Attacher", "string", 0),
        ("PV", "string", 0),
        ("Node", "string", 0),
        ("Attached", "boolean", 0),
        ("Age", "string", 0),
    ];
    printer(&columns, |attachment, now| {
        vec![
            name(attachment),
            text(attachment, "/spec/attacher").into(),
            text(attachment, "/spec/source/persistentVolumeName").into(),
            text(attachment, "/spec/nodeName").into(),
            is_true(attachment, "/status/attached").into(),
            age(attachment, now),
        ]
    })
}

pub(crate) fn storage_classes() -> Printer {
    const IS_DEFAULT: &str = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
    let columns = [
        ("Name", "string", 0),
        ("Provisioner", "string", 0),
        ("ReclaimPolicy", "string", 0),
        ("VolumeBindingMode", "string", 0),
        ("AllowVolumeExpansion", "string", 0),
        ("Age", "string", 0),
    ];
    printer(&columns, |class, now| {
        let mark = if text(class, IS_DEFAULT) == "true" {
            " (default)"
        } else {
            ""
        };
        vec![
            format!("{}{mark}", text(class, "/metadata/name")).into(),
            text(class, "/provisioner").into(),
            text_or(class, "/reclaimPolicy", "Delete").into(),
            text_or(class, "/volumeBindingMode", "Immediate").into(),
            is_true(class, "/allowVolumeExpansion").into(),
            age(class, now),
        ]
    })
}

pub(crate) fn csi_nodes() -> Printer {
    printer(
        &[("Name", "string", 0), ("Drivers", "integer", 0), ("Age", "string", 0)],
        |node, now| vec![name(node), items(node, "/spec/drivers").len().into(), age(node, now)],
    )
}

pub(crate) fn volume_attributes_classes() -> Printer {
    let columns = [("Name", "string", 0), ("DriverName", "string", 0), ("Age", "string", 0)];
    printer(&columns, |class, now| {
        vec![name(class), text(class, "/driverName").into(), age(class, now)]
    })
}

pub(crate) fn csi_drivers() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("AttachRequired", "boolean", 0),
        ("PodInfoOnMount", "boolean", 0),
        ("StorageCapacity", "boolean", 0),
        ("TokenRequests", "string", 0),
        ("RequiresRepublish", "boolean", 0),
        ("Modes", "string", 0),
        ("Age", "string", 0),
    ];
    printer(&columns, |driver, now| {
        let audiences = items(driver, "/spec/tokenRequests")
            .iter()
            .map(|request| text(request, "/audience"));
        let modes = items(driver, "/spec/volumeLifecycleModes")
            .iter()
            .filter_map(Value::as_str);
        vec![
            name(driver),
            driver
                .pointer("/spec/attachRequired")
                .and_then(Value::as_bool)
                .unwrap_or(true)
                .into(),
            is_true(driver, "/spec/podInfoOnMount").into(),
            is_true(driver, "/spec/storageCapacity").into(),
            joined(audiences, UNSET).into(),
            is_true(driver, "/spec/requiresRepublish").into(),
            joined(modes, NONE).into(),
            age(driver, now),
        ]
    })
}
