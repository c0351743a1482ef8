//! Generates `deploy/monitoring/grafana-drydock.json`, a Grafana dashboard of the embedded API server and of fakecloud.
//!
//! `DRYDOCK_WRITE_DOCS=1 cargo test -p e2e --test it grafana` writes it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use http::Request;
use monitoring::{Board, panel};
use scenario::fixtures;

use crate::drydock::client;
use crate::programs::program;
use crate::up::Up;

const BOARD: Board = Board {
    uid: "drydock-servers",
    title: "Drydock's servers",
    tag: "drydock",
    rows: &[
        (
            "Cloud",
            &[
                panel(
                    "VMs by state",
                    "none",
                    &[("sum by (state) (fakecloud_vms)", "{{state}}")],
                ),
                panel(
                    "Disks, network interfaces and volumes",
                    "none",
                    &[("sum by (kind) (fakecloud_parts)", "{{kind}}")],
                ),
                panel(
                    "Calls of the driver, by code",
                    "reqps",
                    &[(
                        "sum by (call, code) (rate(fakecloud_driver_calls_total[5m]))",
                        "{{call}} {{code}}",
                    )],
                ),
            ],
        ),
        (
            "Faults",
            &[
                panel(
                    "Calls hit by rules of the cloud",
                    "none",
                    &[("fakecloud_fault_hits", "{{rule}}")],
                ),
                panel(
                    "Zones that fail",
                    "none",
                    &[("fakecloud_zone_failing", "{{zone}} {{failure}}")],
                ),
                panel(
                    "Refused requests, by code",
                    "reqps",
                    &[(
                        "sum by (code) (rate(apiserver_request_total{code=~\"4..|5..\"}[5m]))",
                        "{{code}}",
                    )],
                ),
            ],
        ),
        (
            "API server",
            &[
                panel(
                    "Requests, by verb",
                    "reqps",
                    &[("sum by (verb) (rate(apiserver_request_total[5m]))", "{{verb}}")],
                ),
                panel(
                    "Duration of requests (99th percentile)",
                    "s",
                    &[(
                        "histogram_quantile(0.99, sum by (le, verb) (rate(apiserver_request_duration_seconds_bucket[5m])))",
                        "{{verb}}",
                    )],
                ),
                panel(
                    "Requests in flight, and open watches",
                    "none",
                    &[
                        (
                            "sum by (request_kind) (apiserver_current_inflight_requests)",
                            "{{request_kind}}",
                        ),
                        ("sum(apiserver_longrunning_requests)", "watches"),
                    ],
                ),
            ],
        ),
        (
            "Kubelets",
            &[panel(
                "Requests of kubelets, by code (0: no response)",
                "reqps",
                &[(
                    "sum by (method, code) (rate(fakecloud_kubelet_api_requests_total[5m]))",
                    "{{method}} {{code}}",
                )],
            )],
        ),
    ],
};

/// What a fake cloud with kubelets and a call from a driver's client answers to a scrape.
fn scraped_cloud(folder: &Path, kubeconfig: &Path) -> String {
    let mut serve = program("fakecloud");
    serve.args("serve --address=127.0.0.1:0 --health-address=127.0.0.1:0 --kubeconfig".split(' '));
    let mut cloud = Up::when_it_prints("probes and metrics: ", serve.arg(kubeconfig));
    cloud.prints("as a driver: ");
    let after = |text: &str| {
        let (_, rest) = cloud.printed.split_once(text).unwrap();
        rest.split([';', '\n']).next().unwrap().trim().to_owned()
    };
    for (file, object) in [
        ("class.yaml", fixtures::class("default")),
        ("secret.yaml", fixtures::secret("default")),
    ] {
        std::fs::write(folder.join(file), object.to_string()).unwrap();
    }
    let driver = format!("--driver={}", after("as a driver: "));
    let listed = program("mcm")
        .args(["vm", "list", &driver, "--class=class.yaml", "--secret=secret.yaml"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let mut stream = TcpStream::connect(after("probes and metrics: http://")).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    cloud.end();
    text
}

/// A renamed metric must not leave a panel empty.
#[tokio::test]
async fn the_panels_use_metrics_that_the_servers_have() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--without", "mcm", "--without", "fakecloud"]);
    let cloud = scraped_cloud(folder.path(), &up.kubeconfig());
    let (missing, found) = BOARD.missing_metrics(&["fakecloud_"], &cloud);
    assert!(missing.is_empty() && found >= 5, "{missing:?} are not in\n{cloud}");
    let request = Request::get("/metrics").body(Vec::new()).unwrap();
    let server = client(&up.kubeconfig()).await.request_text(request).await.unwrap();
    let (missing, found) = BOARD.missing_metrics(&["apiserver_"], &server);
    assert!(missing.is_empty() && found >= 4, "{missing:?} are not in\n{server}");
    up.end();
}

#[test]
fn the_dashboard_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring/grafana-drydock.json");
    assert!(
        monitoring::is_current(&path, &BOARD.text()).unwrap(),
        "{} is stale: DRYDOCK_WRITE_DOCS=1 cargo test -p e2e --test it grafana writes it",
        path.display()
    );
}
