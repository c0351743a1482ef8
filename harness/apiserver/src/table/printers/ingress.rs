//! Rules for traffic.

use serde_json::Value;

use super::{AGE, NAME, NONE, age, items, joined, name, printer, selector, text, text_or};
use crate::resource::Printer;

/// The number of hosts that are shown.
const MOST_HOSTS: usize = 3;

pub(crate) fn ingresses() -> Printer {
    let columns = [
        NAME,
        ("Class", "string", 0),
        ("Hosts", "string", 0),
        ("Address", "string", 0),
        ("Ports", "string", 0),
        AGE,
    ];
    printer(&columns, |ingress, now| {
        let addresses = items(ingress, "/status/loadBalancer/ingress").iter();
        let addresses = addresses.map(|one| text_or(one, "/ip", text(one, "/hostname")));
        let ports = if items(ingress, "/spec/tls").is_empty() {
            "80"
        } else {
            "80, 443"
        };
        vec![
            name(ingress),
            text_or(ingress, "/spec/ingressClassName", NONE).into(),
            hosts(ingress).into(),
            joined(addresses, "").into(),
            ports.into(),
            age(ingress, now),
        ]
    })
}

fn hosts(ingress: &Value) -> String {
    let hosts = items(ingress, "/spec/rules").iter().map(|rule| text(rule, "/host"));
    let hosts: Vec<&str> = hosts.filter(|host| !host.is_empty()).collect();
    match hosts.len().checked_sub(MOST_HOSTS) {
        Some(more @ 1..) => format!("{} + {more} more...", joined(hosts.into_iter().take(MOST_HOSTS), "")),
        _ => joined(hosts, "*"),
    }
}

pub(crate) fn ingress_classes() -> Printer {
    let columns = [NAME, ("Controller", "string", 0), ("Parameters", "string", 0), AGE];
    printer(&columns, |class, now| {
        let kind = text(class, "/spec/parameters/kind");
        let parameters = match (kind, text(class, "/spec/parameters/apiGroup")) {
            ("", _) => NONE.to_owned(),
            (kind, "") => format!("{kind}/{}", text(class, "/spec/parameters/name")),
            (kind, group) => format!("{kind}.{group}/{}", text(class, "/spec/parameters/name")),
        };
        vec![
            name(class),
            text(class, "/spec/controller").into(),
            parameters.into(),
            age(class, now),
        ]
    })
}

pub(crate) fn network_policies() -> Printer {
    printer(&[NAME, ("Pod-Selector", "string", 0), AGE], |policy, now| {
        vec![
            name(policy),
            selector(policy, "/spec/podSelector").into(),
            age(policy, now),
        ]
    })
}
