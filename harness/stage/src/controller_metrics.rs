//! The panics of the built-in controllers, as metrics of the embedded API server.

use ::controllers::Panics;
use apiserver::metrics::{Family, Kind, Source};

/// The number of panics of each controller.
pub const PANICS: &str = "drydock_controller_panics_total";
/// The number of starts after a panic.
pub const RESTARTS: &str = "drydock_controller_restarts_total";

/// Adds the panics of controllers to the metrics of a server.
#[derive(Clone, Debug, Default)]
pub struct ControllerMetrics(pub Panics);

impl Source for ControllerMetrics {
    fn families(&self) -> Vec<Family> {
        let mut panics = Family::new(PANICS, "Number of panics of a built-in controller.", Kind::Counter);
        let mut restarts = Family::new(
            RESTARTS,
            "Number of starts of a built-in controller after a panic.",
            Kind::Counter,
        );
        for (controller, counts) in self.0.counts() {
            let labels = [("controller", controller.to_owned())];
            panics = panics.with(&labels, counts.panics);
            restarts = restarts.with(&labels, counts.restarts);
        }
        vec![panics, restarts]
    }
}
