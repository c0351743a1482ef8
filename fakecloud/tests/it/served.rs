//! Health and reflection, and the client of gRPC calls in the log.

use fakecloud::proto::AuditRequest;
use mcm_driver::proto::driver_client::DriverClient;
use tokio_stream::StreamExt;
use tonic::Request;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::process::Process;

#[tokio::test]
async fn both_contracts_are_healthy_and_described() {
    let process = Process::start(None, 1).await;
    let mut health = HealthClient::new(process.channel());
    for service in ["drydock.driver.v1.Driver", "drydock.fakecloud.v1.Cloud"] {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let mut reflection = ServerReflectionClient::new(process.channel());
    let ask = |asked| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(asked),
    };
    let asked = tokio_stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(
            "drydock.fakecloud.v1.Fault".to_owned(),
        )),
    ]);
    let mut answers = reflection.server_reflection_info(asked).await.unwrap().into_inner();
    let first = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = first else {
        panic!("{first:?}");
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(
        names.contains(&"drydock.driver.v1.Driver") && names.contains(&"drydock.fakecloud.v1.Cloud"),
        "{names:?}"
    );
    let second = answers.next().await.unwrap().unwrap().message_response.unwrap();
    assert!(
        matches!(second, MessageResponse::FileDescriptorResponse(_)),
        "{second:?}"
    );
}

#[tokio::test]
async fn the_log_names_the_client_of_a_grpc_call() {
    let process = Process::start(None, 1).await;
    let mut driver = DriverClient::new(process.channel());
    let mut request = Request::new(mcm_driver::proto::VolumesRequest::default());
    request.metadata_mut().insert("x-client", "operator-7".parse().unwrap());
    driver.get_volume_ids(request).await.unwrap();
    let page = process
        .control()
        .audit(AuditRequest::default())
        .await
        .unwrap()
        .into_inner();
    let record = page.records.last().unwrap();
    assert_eq!(
        (record.operation.as_str(), record.client.as_str()),
        ("GetVolumeIDs", "operator-7")
    );
}
