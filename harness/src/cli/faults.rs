//! `drydock faults`: manages the fault rules of a running API server of drydock.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::faults::{Rule, Status, parse};
use clap::{Args, Subcommand};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::error::brief;
use runtime::kube_config;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use terminal::{Column, Format, OutputFormat, Row, render};

use super::output::print;
use super::{Ended, Stop, block_on, running_world};

/// The path of the fault rules on the server.
const FAULTS_PATH: &str = "/drydock/faults";
/// Timeout of connections and requests to the API server.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub(super) struct Faults {
    /// The administrator's kubeconfig; the default is KUBECONFIG, otherwise the `drydock up` of this folder
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Adds all rules of files, or none if one is invalid
    Add(Add),
    /// Lists the rules with the numbers of matching requests and hits
    List(List),
    /// Removes rules; requests and events that they delay continue
    Remove(Remove),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock faults add slow-lists.yaml\n  echo '{name: lost, match: {verbs: [create], times: 1}, action: {drop: {at: afterCommit}}}' | drydock faults add -"
)]
struct Add {
    /// Files of rules in YAML or JSON; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  drydock faults list\n  drydock faults list -o yaml > rules.yaml")]
struct List {
    #[command(flatten)]
    output: OutputFormat,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  drydock faults remove lost\n  drydock faults remove --all")]
struct Remove {
    /// Names of rules
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,

    /// Removes all rules
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// The response of the server.
#[derive(Debug, Deserialize)]
struct Answer {
    rules: Vec<Status>,
}

impl Faults {
    pub(super) fn execute(self) -> Ended {
        let Self { kubeconfig, command } = self;
        // Before any request, so that an invalid file is reported even without a server.
        let added = match &command {
            Command::Add(add) => add.rules()?,
            _ => Vec::new(),
        };
        block_on(async {
            let server = FaultsClient::connect(kubeconfig).await?;
            match command {
                Command::Add(_) => {
                    let body = serde_json::to_vec(&added).map_err(|error| Stop::Usage(error.to_string()))?;
                    let answer = server.send(Request::post(FAULTS_PATH), body).await?;
                    print(&report("added", &answer.rules))
                }
                Command::List(list) => {
                    let answer = server.send(Request::get(FAULTS_PATH), Vec::new()).await?;
                    print(&list.text(&answer.rules)?)
                }
                Command::Remove(remove) if remove.all => {
                    let answer = server.send(Request::delete(FAULTS_PATH), Vec::new()).await?;
                    print(&report("removed", &answer.rules))
                }
                Command::Remove(remove) => {
                    let names: BTreeSet<String> = remove.names.into_iter().collect();
                    let mut removed = Vec::new();
                    for name in &names {
                        let request = Request::delete(format!("{FAULTS_PATH}/{name}"));
                        removed.extend(server.send(request, Vec::new()).await?.rules);
                    }
                    print(&report("removed", &removed))
                }
            }
        })?
    }
}

impl Add {
    /// The rules of all files.
    fn rules(&self) -> Result<Vec<Rule>, Stop> {
        let mut rules = Vec::new();
        for file in &self.files {
            let text = read(file).map_err(|error| Stop::Usage(format!("cannot read {}: {error}", file.display())))?;
            let read = parse(&text).map_err(|error| Stop::Usage(format!("{}: {error}", file.display())))?;
            rules.extend(read);
        }
        Ok(rules)
    }
}

fn read(file: &Path) -> std::io::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

impl List {
    fn text(&self, rules: &[Status]) -> Result<String, Stop> {
        if self.output.format == Format::Yaml {
            let rules: Vec<&Rule> = rules.iter().map(|status| &status.rule).collect();
            return serde_saphyr::to_string(&rules)
                .map_err(|error| Stop::Usage(format!("cannot serialize the rules: {error}")));
        }
        let rows: Vec<RuleRow<'_>> = rules.iter().map(RuleRow).collect();
        Ok(render(self.output.format, &rows)?)
    }
}

/// A row of the list.
#[derive(Debug, Serialize)]
struct RuleRow<'a>(&'a Status);

impl Row for RuleRow<'_> {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("RULE"),
        Column::Shown("CLASS"),
        Column::Shown("MATCHED"),
        Column::Shown("HITS"),
        Column::Text("WHAT"),
    ];
    const EMPTY: &'static str = "There are no fault rules.";

    fn cells(&self) -> Vec<String> {
        let Status {
            rule,
            class,
            matched,
            hits,
        } = self.0;
        vec![
            rule.name.clone(),
            class.to_string(),
            matched.to_string(),
            hits.to_string(),
            format!("{}{}", rule.action, rule.matches),
        ]
    }
}

/// A line for each added or removed rule, with the hits of removed ones.
fn report(what: &str, rules: &[Status]) -> String {
    let lines = rules.iter().map(|status| match what {
        "removed" => format!(
            "removed {}: {} hits of {} matching requests\n",
            status.rule.name, status.hits, status.matched
        ),
        _ => format!("{what} {} ({})\n", status.rule, status.class),
    });
    lines.collect()
}

/// A client for the fault rules of a server.
struct FaultsClient {
    client: kube::Client,
    address: String,
}

impl FaultsClient {
    async fn connect(kubeconfig: Option<PathBuf>) -> Result<Self, Stop> {
        let unusable = |reason: String| Stop::Usage(format!("the kubeconfig is not usable: {reason}"));
        let read = match kubeconfig {
            Some(path) => Kubeconfig::read_from(path).map_err(|error| unusable(error.to_string()))?,
            None => match Kubeconfig::from_env().map_err(|error| unusable(error.to_string()))? {
                Some(read) => read,
                None => Kubeconfig::read_from(of_this_folder()?).map_err(|error| unusable(error.to_string()))?,
            },
        };
        let config = kube_config::of(read, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| unusable(error.to_string()))?;
        config.default_retry = false;
        config.connect_timeout = Some(LIMIT);
        let address = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { client, address })
    }

    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Answer, Stop> {
        let request = request.header("content-type", "application/json").body(body);
        let request = request.map_err(|error| Stop::Usage(format!("invalid rule name: {error}")))?;
        let answer = tokio::time::timeout(LIMIT, self.client.request::<Value>(request)).await;
        let answer = answer.map_err(|_| Stop::Usage(format!("the API server at {} does not answer", self.address)))?;
        match answer {
            Ok(answer) => serde_json::from_value(answer).map_err(|error| {
                Stop::Usage(format!(
                    "the API server at {} has another version: {error}",
                    self.address
                ))
            }),
            Err(kube::Error::Api(status)) if status.code == 404 && !status.message.contains("fault rule") => {
                Err(Stop::Usage(format!(
                    "the API server at {} does not support fault rules: it is not one of drydock (stage embedded)",
                    self.address
                )))
            }
            Err(kube::Error::Api(status)) => Err(Stop::Usage(status.message.clone())),
            Err(error) => Err(Stop::Usage(format!(
                "the API server at {} does not answer: {}",
                self.address,
                brief(&error)
            ))),
        }
    }
}

/// The kubeconfig of the world that `drydock up` runs in this folder.
fn of_this_folder() -> Result<PathBuf, Stop> {
    let folder =
        std::env::current_dir().map_err(|error| Stop::Usage(format!("the current folder is unknown: {error}")))?;
    let world = running_world::find(&folder).ok();
    world.and_then(|world| world.kubeconfig).ok_or_else(|| {
        Stop::Usage(
            "no `drydock up` runs in this folder: start one here, set --kubeconfig FILE, or set KUBECONFIG as \
             `drydock up` prints it"
                .to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses() -> Vec<Status> {
        let text = "[{name: lose, match: {verbs: [create], times: 1}, action: {drop: {at: afterCommit}}},\
                     {name: twice, action: {duplicateEvent: {}}}]";
        let rules = parse(text).unwrap();
        let statuses = rules.into_iter().map(|rule| Status {
            class: rule.class(),
            rule,
            matched: 3,
            hits: 1,
        });
        statuses.collect()
    }

    #[test]
    fn rules_are_listed_with_their_hits() {
        let expected = "\
RULE   CLASS      MATCHED  HITS  WHAT
lose   legal      3        1     drop afterCommit of create, 1 times
twice  byzantine  3        1     duplicateEvent
";
        let of = |format| List {
            output: OutputFormat { format },
        };
        assert_eq!(of(Format::Table).text(&statuses()).unwrap(), expected);
        assert_eq!(of(Format::Table).text(&[]).unwrap(), "There are no fault rules.\n");
        assert_eq!(
            report("removed", &statuses()),
            "removed lose: 1 hits of 3 matching requests\nremoved twice: 1 hits of 3 matching requests\n"
        );
    }

    #[test]
    fn rules_listed_as_yaml_are_a_rule_file() {
        let list = List {
            output: OutputFormat { format: Format::Yaml },
        };
        let text = list.text(&statuses()).unwrap();
        let expected: Vec<Rule> = statuses().into_iter().map(|status| status.rule).collect();
        assert_eq!(parse(&text).unwrap(), expected);
    }

    #[test]
    fn an_invalid_file_is_reported_before_any_request() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yaml");
        std::fs::write(&file, "{name: a, action: {fail: {code: 418}}}").unwrap();
        let error = Add {
            files: vec![file.clone()],
        }
        .rules()
        .unwrap_err()
        .to_string();
        assert!(
            error.starts_with(&format!("{}: fault rule \"a\": action.fail.code", file.display())),
            "{error}"
        );
        let missing = Add {
            files: vec![folder.path().join("none")],
        };
        assert!(missing.rules().unwrap_err().to_string().starts_with("cannot read"));
    }

    /// A running server of drydock, with kubeconfig files of its administrator and of a user without rights.
    async fn server(folder: &Path) -> (apiserver::serve::Serving, PathBuf, PathBuf) {
        let options = apiserver::Options::new(clock::Clock::wall(), clock::Seed::new(1));
        let server = apiserver::Server::new(options).unwrap();
        let serving = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
        let write = |name: &str, identity| {
            let path = folder.join(name);
            std::fs::write(&path, serving.kubeconfig(&identity).unwrap()).unwrap();
            path
        };
        let admin = write("admin", apiserver::Identity::admin());
        let user = write("user", apiserver::Identity::user("user"));
        (serving, admin, user)
    }

    #[tokio::test]
    async fn rules_of_a_running_server_are_added_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (_serving, admin, user) = server(folder.path()).await;
        let server = FaultsClient::connect(Some(admin)).await.unwrap();
        let rules: Vec<Rule> = statuses().into_iter().map(|status| status.rule).collect();
        let body = serde_json::to_vec(&rules).unwrap();
        let added = server.send(Request::post(FAULTS_PATH), body.clone()).await.unwrap();
        assert_eq!(
            report("added", &added.rules),
            "added lose: drop afterCommit of create, 1 times (legal)\nadded twice: duplicateEvent (byzantine)\n"
        );
        let twice = server
            .send(Request::post(FAULTS_PATH), body)
            .await
            .unwrap_err()
            .to_string();
        assert!(twice.contains("there is a rule of that name"), "{twice}");
        let missing = server
            .send(Request::delete(format!("{FAULTS_PATH}/none")), Vec::new())
            .await
            .unwrap_err()
            .to_string();
        assert!(missing.contains("there is no fault rule \"none\""), "{missing}");
        let removed = server
            .send(Request::delete(format!("{FAULTS_PATH}/lose")), Vec::new())
            .await
            .unwrap();
        let expected = "removed lose: 0 hits of 0 matching requests\n";
        assert_eq!(report("removed", &removed.rules), expected);
        let left = server.send(Request::get(FAULTS_PATH), Vec::new()).await.unwrap();
        assert_eq!(left.rules.len(), 1);

        let server = FaultsClient::connect(Some(user)).await.unwrap();
        let refused = server
            .send(Request::get(FAULTS_PATH), Vec::new())
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("system:masters"), "{refused}");
    }
}
