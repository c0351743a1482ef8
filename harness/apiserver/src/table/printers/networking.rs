//! Services and their endpoints.

use serde_json::Value;

use super::{NONE, UNSET, age, items, joined, name, number, printer, selector, text, text_or};
use crate::resource::Printer;

pub(crate) fn services() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Type", "string", 0),
        ("Cluster-IP", "string", 0),
        ("External-IP", "string", 0),
        ("Port(s)", "string", 0),
        ("Age", "string", 0),
        ("Selector", "string", 1),
    ];
    printer(&columns, |service, now| {
        vec![
            name(service),
            text(service, "/spec/type").into(),
            text_or(service, "/spec/clusterIP", NONE).into(),
            external_address(service).into(),
            ports(service).into(),
            age(service, now),
            selector(service, "/spec/selector").into(),
        ]
    })
}

fn external_address(service: &Value) -> String {
    let external = items(service, "/spec/externalIPs").iter().filter_map(Value::as_str);
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = items(service, "/status/loadBalancer/ingress").iter();
            joined(
                ingress
                    .map(|one| text_or(one, "/ip", text(one, "/hostname")))
                    .chain(external),
                "<pending>",
            )
        }
        _ => joined(external, NONE),
    }
}

fn ports(service: &Value) -> String {
    let ports: Vec<String> = items(service, "/spec/ports")
        .iter()
        .map(|port| match number(port, "/nodePort") {
            0 => format!("{}/{}", number(port, "/port"), text(port, "/protocol")),
            node => format!("{}:{node}/{}", number(port, "/port"), text(port, "/protocol")),
        })
        .collect();
    joined(ports.iter().map(String::as_str), NONE)
}

pub(crate) fn endpoints() -> Printer {
    printer(
        &[("Name", "string", 0), ("Endpoints", "string", 0), ("Age", "string", 0)],
        |object, now| {
            let all = items(object, "/subsets").iter().flat_map(|subset| {
                items(subset, "/ports").iter().flat_map(|port| {
                    let addresses = items(subset, "/addresses").iter();
                    addresses.map(|address| format!("{}:{}", text(address, "/ip"), number(port, "/port")))
                })
            });
            vec![name(object), first_few(all.collect(), NONE).into(), age(object, now)]
        },
    )
}

pub(crate) fn endpoint_slices() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("AddressType", "string", 0),
        ("Ports", "string", 0),
        ("Endpoints", "string", 0),
        ("Age", "string", 0),
    ];
    printer(&columns, |slice, now| {
        let ports = items(slice, "/ports").iter().map(|port| match number(port, "/port") {
            0 => "*".to_owned(),
            port => port.to_string(),
        });
        let addresses = items(slice, "/endpoints")
            .iter()
            .flat_map(|endpoint| items(endpoint, "/addresses"));
        let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
        vec![
            name(slice),
            text(slice, "/addressType").into(),
            first_few(ports.collect(), UNSET).into(),
            first_few(addresses.collect(), UNSET).into(),
            age(slice, now),
        ]
    })
}

/// At most three texts, then the number of further ones.
fn first_few(texts: Vec<String>, otherwise: &str) -> String {
    const SHOWN: usize = 3;
    let shown = joined(texts.iter().take(SHOWN).map(String::as_str), otherwise);
    if texts.len() > SHOWN {
        format!("{shown} + {} more...", texts.len().saturating_sub(SHOWN))
    } else {
        shown
    }
}
