//! Results as text, JSON and YAML.

use k8s_openapi::api::core::v1::NodeAddress;
use mcm_api::cloud::Power;
use mcm_api::{MachineName, NodeName, ProviderId, VmIdentity};
use rstest::rstest;

use crate::vm::calls::Outcome;
use crate::vm::options::OutputFormat;
use crate::vm::output::render;

fn vm(addresses: Vec<NodeAddress>) -> Outcome {
    Outcome::Vm {
        verb: "created",
        machine: "m-1".to_owned(),
        vm: VmIdentity {
            provider_id: ProviderId::new("fake:///1"),
            node_name: NodeName::new("node-1"),
            addresses,
            ..VmIdentity::default()
        },
    }
}

fn stopped() -> Outcome {
    Outcome::Vm {
        verb: "stopped",
        machine: "m-1".to_owned(),
        vm: VmIdentity {
            provider_id: ProviderId::new("fake:///1"),
            power: Some(Power::Stopped),
            ..VmIdentity::default()
        },
    }
}

fn address() -> NodeAddress {
    NodeAddress {
        type_: "InternalIP".to_owned(),
        address: "10.0.0.1".to_owned(),
    }
}

fn deleted(provider_id: Option<&str>) -> Outcome {
    Outcome::Deleted {
        machine: "m-1".to_owned(),
        provider_id: provider_id.map(str::to_owned),
        last_known_state: None,
    }
}

fn list(vms: &[(&str, &str)]) -> Outcome {
    let vm = |(id, name): &(&str, &str)| Some((ProviderId::new(*id)?, MachineName::new(*name)?));
    Outcome::List {
        class: "small".to_owned(),
        vms: vms.iter().filter_map(vm).collect(),
    }
}

#[rstest]
#[case::vm(vm(Vec::new()), OutputFormat::Text, "created: provider id fake:///1, node node-1\n")]
#[case::addresses(vm(vec![address()]), OutputFormat::Text, "created: provider id fake:///1, node node-1, InternalIP 10.0.0.1\n")]
#[case::vm_as_yaml(
    vm(Vec::new()),
    OutputFormat::Yaml,
    "machine: m-1\nnodeName: node-1\nproviderId: fake:///1\n"
)]
#[case::vm_as_json(
    vm(Vec::new()),
    OutputFormat::Json,
    "{\n  \"machine\": \"m-1\",\n  \"nodeName\": \"node-1\",\n  \"providerId\": \"fake:///1\"\n}\n"
)]
#[case::stopped(
    stopped(),
    OutputFormat::Text,
    "stopped: provider id fake:///1, node unknown, stopped\n"
)]
#[case::stopped_as_yaml(
    stopped(),
    OutputFormat::Yaml,
    "machine: m-1\npower: stopped\nproviderId: fake:///1\n"
)]
#[case::deleted(deleted(Some("fake:///1")), OutputFormat::Text, "deleted: provider id fake:///1\n")]
#[case::no_vm(deleted(None), OutputFormat::Text, "deleted: the machine m-1 has no VM\n")]
#[case::deleted_as_yaml(
    deleted(Some("fake:///1")),
    OutputFormat::Yaml,
    "deleted: true\nmachine: m-1\nproviderId: fake:///1\n"
)]
#[case::list(
    list(&[("fake:///z1/20", "b"), ("fake:///z1/1", "a")]),
    OutputFormat::Text,
    "PROVIDER ID    MACHINE\nfake:///z1/1   a\nfake:///z1/20  b\n"
)]
#[case::short_ids(list(&[("1", "b")]), OutputFormat::Text, "PROVIDER ID  MACHINE\n1            b\n")]
#[case::empty_list(list(&[]), OutputFormat::Text, "the class small has no VMs\n")]
#[case::empty_list_as_json(list(&[]), OutputFormat::Json, "[]\n")]
#[case::list_as_yaml(list(&[("2", "b"), ("1", "a")]), OutputFormat::Yaml,
    "- machine: a\n  providerId: \"1\"\n- machine: b\n  providerId: \"2\"\n")]
fn a_result_is_rendered(#[case] outcome: Outcome, #[case] format: OutputFormat, #[case] expected: &str) {
    assert_eq!(render(&outcome, format).unwrap(), expected);
}
