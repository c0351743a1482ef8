//! Which options of `drydock up` go together.

use scenario::StageKind;
use stage::processes::Controller;

use super::{Part, Up};
use crate::cli::Stop;

impl Up {
    /// Checks that the options fit the stage and each other.
    ///
    /// # Errors
    /// The first option that does not fit.
    pub(super) fn check(&self) -> Result<(), Stop> {
        self.on.check(self.stage, None)?;
        self.population.check()?;
        let problem = self
            .problem_of_stage()
            .or_else(|| self.problem_of_parts().map(str::to_owned));
        problem.map_or(Ok(()), |problem| Err(Stop::Usage(problem)))
    }

    /// The first option that the stage does not have.
    fn problem_of_stage(&self) -> Option<String> {
        let stage = self.stage;
        if matches!(stage, StageKind::Sim | StageKind::Kubeconfig) {
            return Some(format!(
                "drydock up starts its own cluster, on stage embedded, envtest or kind; stage {stage} is for drydock run"
            ));
        }
        let of_embedded = [
            ("--without=controllers", self.omits(Part::Controllers)),
            ("--service", self.services.is_given()),
            ("--data", self.data.is_given()),
            ("--port", self.port != 0),
        ];
        let (option, _) = of_embedded.into_iter().find(|(_, is_given)| *is_given)?;
        (stage != StageKind::Embedded).then(|| format!("{option} is for --stage embedded; the stage is {stage}"))
    }

    /// The first option that needs a part that does not run.
    fn problem_of_parts(&self) -> Option<&'static str> {
        let (is_on_kind, is_alone) = (self.is_on_kind(), self.is_alone());
        let problems = [
            (
                is_alone && self.population.nodes() > 0,
                "--nodes needs fakecloud: without fakecloud there are none",
            ),
            (
                is_alone && self.dashboard.is_given(),
                "--buttons and --dashboard-port need fakecloud: the dashboard shows its VMs",
            ),
            (
                (is_on_kind || is_alone) && !self.with.is_empty(),
                "--with is for stages embedded and envtest with fakecloud: leave it out, or apply deploy/ yourself",
            ),
            (
                is_on_kind && (is_alone || self.controller() != Controller::Mcm),
                "--without and --controller are for stages of processes; on stage kind mcm is a Deployment",
            ),
            (
                is_on_kind && self.kubelets != 0,
                "--kubelets is for stages of processes; on stage kind it changes nothing: leave it out",
            ),
        ];
        problems
            .into_iter()
            .find_map(|(is_wrong, problem)| is_wrong.then_some(problem))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        up: Up,
    }

    #[rstest]
    #[case::defaults("", None)]
    #[case::all_on_embedded(
        "--port 6443 --data d --without controllers --with remediation --buttons --nodes 3",
        None
    )]
    #[case::no_mcm("--without mcm", None)]
    #[case::only_a_control_plane("--without fakecloud --data d", None)]
    #[case::own_controller_on_envtest("--stage envtest --controller c --kubelets 3", None)]
    #[case::kind("--stage kind --nodes 3 --buttons", None)]
    #[case::sim("--stage sim", Some("drydock up starts its own cluster"))]
    #[case::a_port_on_envtest(
        "--stage envtest --port 6443",
        Some("--port is for --stage embedded; the stage is envtest")
    )]
    #[case::data_on_kind("--stage kind --data d", Some("--data is for --stage embedded; the stage is kind"))]
    #[case::a_service_on_envtest("--stage envtest --service default/a:1=127.0.0.1:1", Some("--service is for"))]
    #[case::no_controllers_on_envtest("--stage envtest --without controllers", Some("--without=controllers is for"))]
    #[case::nodes_without_cloud("--without fakecloud --nodes 1", Some("--nodes needs fakecloud"))]
    #[case::buttons_without_cloud(
        "--without fakecloud --buttons",
        Some("--buttons and --dashboard-port need fakecloud")
    )]
    #[case::additions_without_cloud("--without fakecloud --with remediation", Some("--with is for"))]
    #[case::additions_on_kind("--stage kind --with health-checks", Some("--with is for"))]
    #[case::no_mcm_on_kind("--stage kind --without mcm", Some("--without and --controller are for"))]
    #[case::no_cloud_on_kind("--stage kind --without fakecloud", Some("--without and --controller are for"))]
    #[case::own_controller_on_kind("--stage kind --controller c", Some("--without and --controller are for"))]
    #[case::kubelets_on_kind("--stage kind --kubelets 3", Some("--kubelets is for"))]
    fn options_that_do_not_fit_are_refused(#[case] options: &str, #[case] expected: Option<&str>) {
        let arguments = std::iter::once("up").chain(options.split_whitespace());
        let found = Command::try_parse_from(arguments).unwrap().up.check().err();
        match (found, expected) {
            (None, None) => {}
            (Some(Stop::Usage(found)), Some(expected)) => assert!(found.starts_with(expected), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }
}
