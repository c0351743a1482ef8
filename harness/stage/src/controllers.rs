//! The built-in controllers for a control plane without its own controllers.

use std::sync::Arc;
use std::time::Duration;

use ::controllers::{Name, Settings, node_lifecycle};
use apiserver::Authorization;
use clock::{Clock, Seed};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;
use kube::runtime::wait::await_condition;
use scenario::Timeouts;
use tokio_util::sync::CancellationToken;

use super::audit::Audit;
use super::setup::SetupError;

/// How long the controllers may take to create the default service account of a namespace.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(30);

/// The options of the embedded server: it enforces RBAC and leaves the work of the built-in controllers to them.
pub fn server_options(clock: Clock, seed: Seed, audit: &Audit) -> apiserver::Options {
    apiserver::Options {
        authorization: Authorization::Rbac,
        observer: Some(Arc::new(audit.clone())),
        garbage_collector: true,
        namespace_controllers: true,
        service_account_admission: true,
        ..apiserver::Options::new(clock, seed)
    }
}

/// The settings of the controllers on a stage. If `root_certificate` is empty, as in virtual time, the controller that
/// publishes root certificates is disabled.
pub fn settings(timeouts: &Timeouts, root_certificate: &str) -> Settings {
    let settings = Settings {
        root_certificate: root_certificate.to_owned(),
        node_lifecycle: node_lifecycle(timeouts),
        ..Settings::default()
    };
    match root_certificate {
        "" => settings.without([Name::RootCertificates]),
        _ => settings,
    }
}

/// The settings of the node lifecycle controller on a stage.
pub fn node_lifecycle(timeouts: &Timeouts) -> node_lifecycle::Settings {
    node_lifecycle::Settings {
        monitor_period: (timeouts.node_grace / 10).min(Duration::from_secs(5)),
        grace: timeouts.node_grace,
        startup_grace: timeouts.node_grace + Duration::from_secs(10),
        lost_time: timeouts.lost.clone(),
        ..node_lifecycle::Settings::default()
    }
}

/// Runs the controllers until the future is dropped. Returns a message if they end unexpectedly.
pub async fn run(client: kube::Client, clock: Clock, seed: Seed, settings: Settings) -> String {
    ::controllers::run(client, clock, seed, settings, CancellationToken::new()).await;
    "the built-in controllers ended".to_owned()
}

/// Waits until a namespace has its default service account, which pods require.
///
/// # Errors
/// When the namespace has no default service account after half a minute.
pub async fn wait_for_default_account(client: &kube::Client, namespace: &str) -> Result<(), SetupError> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = await_condition(api, "default", |account: Option<&ServiceAccount>| account.is_some());
    match tokio::time::timeout(ACCOUNT_LIMIT, account).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(SetupError::WatchAccount {
            namespace: namespace.to_owned(),
            source: Box::new(source),
        }),
        Err(_) => Err(SetupError::NoAccount {
            namespace: namespace.to_owned(),
            limit: ACCOUNT_LIMIT,
        }),
    }
}
