//! `drydock faults`: the rules by which requests to a running API server of ours go wrong.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver::faults::{Rule, Status, parse};
use clap::{Args, Subcommand, ValueEnum};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use serde_json::Value;

use super::output::print;
use super::{Ended, Usage, block_on, running_world};

/// Where the server keeps its rules.
const DOOR: &str = "/drydock/faults";
/// How long the API server may take to accept a connection, and to answer.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub(super) struct Faults {
    /// The administrator's kubeconfig; without it that of KUBECONFIG, then that of the `drydock up` of this folder
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Adds the rules of files; all or none
    Add(Add),
    /// Shows the rules, how many requests matched and how many were struck
    List(List),
    /// Removes rules; what they held back goes on
    Remove(Remove),
}

#[derive(Args, Debug)]
struct Add {
    /// Files of rules in YAML or JSON; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
struct List {
    /// How they are shown; rules as a file has them with yaml
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
}

#[derive(Args, Debug)]
struct Remove {
    /// Names of rules
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,

    /// Removes all of them
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

/// What the server answers.
#[derive(Debug, Deserialize)]
struct Answer {
    rules: Vec<Status>,
}

impl Faults {
    pub(super) fn execute(self) -> Ended {
        let Self { kubeconfig, command } = self;
        // Before anything is asked, so that a wrong file is told without a server.
        let added = match &command {
            Command::Add(add) => add.rules()?,
            _ => Vec::new(),
        };
        block_on(async {
            let door = Door::find(kubeconfig).await?;
            match command {
                Command::Add(_) => {
                    let body = serde_json::to_vec(&added).map_err(|error| Usage(error.to_string()))?;
                    let answer = door.ask(Request::post(DOOR), body).await?;
                    print(&told("added", &answer.rules))
                }
                Command::List(list) => {
                    let answer = door.ask(Request::get(DOOR), Vec::new()).await?;
                    print(&list.text(&answer.rules)?)
                }
                Command::Remove(remove) if remove.all => {
                    let answer = door.ask(Request::delete(DOOR), Vec::new()).await?;
                    print(&told("removed", &answer.rules))
                }
                Command::Remove(remove) => {
                    let names: BTreeSet<String> = remove.names.into_iter().collect();
                    let mut removed = Vec::new();
                    for name in &names {
                        let request = Request::delete(format!("{DOOR}/{name}"));
                        removed.extend(door.ask(request, Vec::new()).await?.rules);
                    }
                    print(&told("removed", &removed))
                }
            }
        })?
    }
}

impl Add {
    /// The rules of all files.
    fn rules(&self) -> Result<Vec<Rule>, Usage> {
        let mut rules = Vec::new();
        for file in &self.files {
            let text = read(file).map_err(|error| Usage(format!("cannot read {}: {error}", file.display())))?;
            let read = parse(&text).map_err(|error| Usage(format!("{}: {error}", file.display())))?;
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
    fn text(&self, rules: &[Status]) -> Result<String, Usage> {
        let unwritten = |error: String| Usage(format!("the rules cannot be written: {error}"));
        match self.output {
            Output::Table => Ok(table(rules)),
            Output::Json => {
                let text = serde_json::to_string_pretty(rules).map_err(|error| unwritten(error.to_string()))?;
                Ok(text + "\n")
            }
            Output::Yaml => {
                let rules: Vec<&Rule> = rules.iter().map(|status| &status.rule).collect();
                serde_saphyr::to_string(&rules).map_err(|error| unwritten(error.to_string()))
            }
        }
    }
}

fn table(rules: &[Status]) -> String {
    if rules.is_empty() {
        return "There are no fault rules.\n".to_owned();
    }
    let names = rules.iter().map(|status| status.rule.name.len());
    let width = names.max().unwrap_or_default().max("RULE".len());
    let mut text = format!(
        "{:width$}  {:9}  {:>8}  {:>8}  WHAT\n",
        "RULE", "CLASS", "MATCHED", "STRUCK"
    );
    for Status {
        rule,
        class,
        matched,
        hits,
    } in rules
    {
        let class = class.to_string();
        text += &format!(
            "{:width$}  {class:9}  {matched:>8}  {hits:>8}  {}{}\n",
            rule.name, rule.action, rule.matches
        );
    }
    text
}

/// A line for each rule, and how often a removed one struck.
fn told(what: &str, rules: &[Status]) -> String {
    let lines = rules.iter().map(|status| match what {
        "removed" => format!(
            "removed {}: {} of {} struck\n",
            status.rule.name, status.hits, status.matched
        ),
        _ => format!("{what} {} ({})\n", status.rule, status.class),
    });
    lines.collect()
}

/// The way to a server's rules.
struct Door {
    client: kube::Client,
    address: String,
}

impl Door {
    async fn find(kubeconfig: Option<PathBuf>) -> Result<Self, Usage> {
        let unusable = |reason: String| Usage(format!("the kubeconfig is not usable: {reason}"));
        let read = match kubeconfig {
            Some(path) => Kubeconfig::read_from(path).map_err(|error| unusable(error.to_string()))?,
            None => match Kubeconfig::from_env().map_err(|error| unusable(error.to_string()))? {
                Some(read) => read,
                None => Kubeconfig::read_from(of_this_folder()?).map_err(|error| unusable(error.to_string()))?,
            },
        };
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| unusable(error.to_string()))?;
        config.default_retry = false;
        config.connect_timeout = Some(LIMIT);
        let address = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { client, address })
    }

    async fn ask(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Answer, Usage> {
        let request = request.header("content-type", "application/json").body(body);
        let request = request.map_err(|error| Usage(format!("a name of a rule is none: {error}")))?;
        let answer = tokio::time::timeout(LIMIT, self.client.request::<Value>(request)).await;
        let answer = answer.map_err(|_| Usage(format!("the API server at {} does not answer", self.address)))?;
        match answer {
            Ok(answer) => serde_json::from_value(answer).map_err(|error| {
                Usage(format!(
                    "the API server at {} is another version's: {error}",
                    self.address
                ))
            }),
            Err(kube::Error::Api(status)) if status.code == 404 && !status.message.contains("fault rule") => {
                Err(Usage(format!(
                    "the API server at {} knows no fault rules: it is not one of drydock's (stage embedded)",
                    self.address
                )))
            }
            Err(kube::Error::Api(status)) => Err(Usage(status.message.clone())),
            Err(error) => Err(Usage(format!(
                "the API server at {} does not answer: {error}",
                self.address
            ))),
        }
    }
}

/// The kubeconfig of the world that `drydock up` keeps in this folder.
fn of_this_folder() -> Result<PathBuf, Usage> {
    let folder = std::env::current_dir().map_err(|error| Usage(format!("this folder cannot be told: {error}")))?;
    let world = running_world::find(&folder).ok();
    world.and_then(|world| world.kubeconfig).ok_or_else(|| {
        Usage(
            "no `drydock up` runs in this folder: start one here, say --kubeconfig FILE, or set KUBECONFIG as \
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
    fn rules_are_shown_with_what_they_did() {
        let expected = "\
RULE   CLASS       MATCHED    STRUCK  WHAT
lose   legal             3         1  drop afterCommit of create, 1 times
twice  byzantine         3         1  duplicateEvent
";
        assert_eq!(table(&statuses()), expected);
        assert_eq!(table(&[]), "There are no fault rules.\n");
        assert_eq!(
            told("removed", &statuses()),
            "removed lose: 1 of 3 struck\nremoved twice: 1 of 3 struck\n"
        );
    }

    #[test]
    fn rules_shown_as_yaml_are_a_file_of_rules() {
        let list = List { output: Output::Yaml };
        let text = list.text(&statuses()).unwrap();
        let expected: Vec<Rule> = statuses().into_iter().map(|status| status.rule).collect();
        assert_eq!(parse(&text).unwrap(), expected);
    }

    #[test]
    fn a_wrong_file_is_named_before_a_server_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yaml");
        std::fs::write(&file, "{name: a, action: {fail: {code: 418}}}").unwrap();
        let Usage(said) = Add {
            files: vec![file.clone()],
        }
        .rules()
        .unwrap_err();
        assert!(
            said.starts_with(&format!("{}: fault rule \"a\": action.fail.code", file.display())),
            "{said}"
        );
        let missing = Add {
            files: vec![folder.path().join("none")],
        };
        assert!(missing.rules().unwrap_err().0.starts_with("cannot read"));
    }

    /// A server of ours that is up, with its administrator's kubeconfig and somebody's in files.
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
        let nobody = write("nobody", apiserver::Identity::user("nobody"));
        (serving, admin, nobody)
    }

    #[tokio::test]
    async fn rules_of_a_running_server_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let (_serving, admin, nobody) = server(folder.path()).await;
        let door = Door::find(Some(admin)).await.unwrap();
        let rules: Vec<Rule> = statuses().into_iter().map(|status| status.rule).collect();
        let body = serde_json::to_vec(&rules).unwrap();
        let added = door.ask(Request::post(DOOR), body.clone()).await.unwrap();
        assert_eq!(
            told("added", &added.rules),
            "added lose: drop afterCommit of create, 1 times (legal)\nadded twice: duplicateEvent (byzantine)\n"
        );
        let Usage(twice) = door.ask(Request::post(DOOR), body).await.unwrap_err();
        assert!(twice.contains("there is a rule of that name"), "{twice}");
        let Usage(missing) = door
            .ask(Request::delete(format!("{DOOR}/none")), Vec::new())
            .await
            .unwrap_err();
        assert!(missing.contains("there is no fault rule \"none\""), "{missing}");
        let removed = door
            .ask(Request::delete(format!("{DOOR}/lose")), Vec::new())
            .await
            .unwrap();
        assert_eq!(told("removed", &removed.rules), "removed lose: 0 of 0 struck\n");
        assert_eq!(door.ask(Request::get(DOOR), Vec::new()).await.unwrap().rules.len(), 1);

        let door = Door::find(Some(nobody)).await.unwrap();
        let Usage(refused) = door.ask(Request::get(DOOR), Vec::new()).await.unwrap_err();
        assert!(refused.contains("system:masters"), "{refused}");
    }
}
