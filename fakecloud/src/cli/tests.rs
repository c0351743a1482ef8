//! The commands against a cloud on a socket.

use clap::Parser;
use clock::{Clock, Seed};
use mcm_driver::Driver;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::*;
use crate::model::{CloudCall, FaultRule, Partial, test_request as request};
use crate::{Config, Fakecloud};

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    control: Control,
}

/// Serves a cloud, and runs `story` with its address.
async fn with_cloud(story: impl AsyncFnOnce(&Fakecloud, &str)) {
    let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("grpc://{}", listener.local_addr().unwrap());
    let token = CancellationToken::new();
    let server = Server::builder().add_service(cloud.control_server());
    let serving = server.serve_with_incoming_shutdown(TcpIncoming::from(listener), token.clone().cancelled_owned());
    let telling = async {
        story(&cloud, &address).await;
        token.cancel();
    };
    let (served, ()) = tokio::join!(serving, telling);
    served.unwrap();
}

async fn run(address: &str, line: &str) -> anyhow::Result<String> {
    let arguments = ["fakecloud"]
        .into_iter()
        .chain(line.split(' '))
        .chain(["--cloud", address]);
    let mut out = Vec::new();
    let done = Line::try_parse_from(arguments)?.control.perform(&mut out).await;
    let text = String::from_utf8(out).unwrap();
    match done {
        Ok(()) => Ok(text),
        Err(error) => Err(error.context(text)),
    }
}

#[tokio::test]
async fn vms_are_listed_and_controlled() {
    with_cloud(async |cloud, address| {
        cloud.driver().create_machine(request("a")).await.unwrap();
        cloud.driver().create_machine(request("b")).await.unwrap();
        let table = run(address, "vms --machine a").await.unwrap();
        assert_eq!(table.lines().count(), 2, "{table}");
        assert!(table.contains("default/a") && table.contains("pending"), "{table}");
        assert!(run(address, "vm hold a").await.unwrap().contains("pending and held"));
        assert!(run(address, "vm step a").await.unwrap().contains("running"));
        assert!(run(address, "vm kill a").await.unwrap().contains("it died"));
        assert!(run(address, "vm start a").await.unwrap().contains("it was switched on"));
        run(address, "vm release a").await.unwrap();
        assert!(
            run(address, "vm reboot default/a")
                .await
                .unwrap()
                .contains("it rebooted")
        );
        assert!(run(address, "vm tag a owner=me kubernetes.io/role/node-").await.is_ok());
        let tagged = run(address, "vms --tag owner=me -o json").await.unwrap();
        let tagged: serde_json::Value = serde_json::from_str(&tagged).unwrap();
        assert_eq!(tagged.as_array().unwrap().len(), 1);
        assert_eq!(tagged[0]["tags"].as_object().unwrap().len(), 2);
        let id = tagged[0]["id"].as_str().unwrap();
        run(address, &format!("vm preempt {id} --notice 0s")).await.unwrap();
        assert!(run(address, "vm delete a").await.unwrap().contains("terminated"));
        let error = run(address, "vm kill a").await.unwrap_err();
        assert!(error.root_cause().to_string().contains("there is no VM"), "{error:#}");
    })
    .await;
}

#[tokio::test]
async fn rules_are_added_and_removed_all_or_none() {
    with_cloud(async |_, address| {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let good = file(
            "good.yaml",
            "- {name: a, action: {code: Internal}}\n\
             - {name: b, match: {call: listMachines}, action: {stale: {by: 1m}}}\n",
        );
        run(address, &format!("faults add {good}")).await.unwrap();
        let again = file(
            "again.yaml",
            "- {name: c, action: {code: Internal}}\n- {name: a, action: {code: Internal}}\n",
        );
        let error = run(address, &format!("faults add {again}")).await.unwrap_err();
        assert!(
            error
                .root_cause()
                .to_string()
                .contains("there is a fault rule \"a\" already"),
            "{error:#}"
        );
        let bad = file(
            "bad.yaml",
            "- {name: d, action: {code: Internal}}\n- {name: e, action: {cod: x}}\n",
        );
        let error = run(address, &format!("faults add {bad}")).await.unwrap_err();
        assert!(
            error.to_string().is_empty() && format!("{error:#}").contains("bad.yaml: line 2"),
            "{error:#}"
        );
        let yaml = run(address, "faults list -o yaml").await.unwrap();
        let listed = crate::config::read_rules("listed", &yaml).unwrap();
        let ids: Vec<&str> = listed.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        run(address, "faults remove a").await.unwrap();
        run(address, "faults remove --all").await.unwrap();
        assert_eq!(run(address, "faults list").await.unwrap().lines().count(), 1);
    })
    .await;
}

#[tokio::test]
async fn zones_quotas_the_log_and_the_ledger_are_shown() {
    with_cloud(async |cloud, address| {
        let failed = run(address, "zone fail local-* --failure api --lasts 5m")
            .await
            .unwrap();
        assert!(failed.contains("local-*") && failed.contains("api"), "{failed}");
        cloud.driver().create_machine(request("a")).await.unwrap_err();
        assert_eq!(run(address, "zone restore local-*").await.unwrap().lines().count(), 1);
        for failure in ["brownOut", "brown-out"] {
            let failed = run(address, &format!("zone fail far --failure {failure}"))
                .await
                .unwrap();
            assert!(failed.contains("brownOut"), "{failed}");
            run(address, "zone restore far").await.unwrap();
        }
        run(address, "quota set 1 --machine-type small").await.unwrap();
        cloud.driver().create_machine(request("a")).await.unwrap();
        let quota = run(address, "quota list").await.unwrap();
        assert!(quota.lines().nth(1).unwrap().ends_with("1    1"), "{quota}");
        assert_eq!(run(address, "capacity list").await.unwrap().lines().count(), 1);
        assert!(run(address, "ledger").await.is_ok());
        cloud.step(|cloud, now| {
            let rule = FaultRule::of("p", CloudCall::CreateMachine)
                .code(mcm_api::Code::Internal)
                .partial(Partial::Nics);
            cloud.add_fault(rule, now).unwrap();
        });
        run(address, "quota lift --machine-type small").await.unwrap();
        cloud.driver().create_machine(request("b")).await.unwrap_err();
        let error = run(address, "ledger").await.unwrap_err();
        assert!(error.to_string().contains("orphan-nic") && error.root_cause().to_string().contains("1 findings"));
        let audit = run(address, "audit --machine b -o json").await.unwrap();
        let audit: serde_json::Value = serde_json::from_str(&audit).unwrap();
        let last = audit.as_array().unwrap().last().unwrap();
        assert_eq!(
            (last["operation"].as_str(), last["code"].as_str()),
            (Some("CreateMachine"), Some("Internal"))
        );
    })
    .await;
}

#[tokio::test]
async fn a_missing_cloud_is_a_one_line_error() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("grpc://{}", taken.local_addr().unwrap());
    drop(taken);
    let error = run(&address, "vms").await.unwrap_err();
    assert!(
        error
            .root_cause()
            .to_string()
            .starts_with("fakecloud does not answer at grpc://127.0.0.1"),
        "{error:#}"
    );
    let error = run("127.0.0.1:1", "vms").await.unwrap_err();
    assert!(error.root_cause().to_string().starts_with("--cloud:"), "{error:#}");
}
