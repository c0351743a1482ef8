use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::{from_value, json};

#[tokio::test]
async fn a_test_has_an_api_server_of_its_own() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new(Options::new(Clock::wall(), Seed::new(1)))?;
    let client = Client::new(server.service(Identity::admin()), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map = from_value(json!({ "metadata": { "name": "settings" }, "data": { "size": "3" } }))?;
    maps.create(&Default::default(), &map).await?;
    assert_eq!(maps.get("settings").await?.data.unwrap_or_default()["size"], "3");
    Ok(())
}
