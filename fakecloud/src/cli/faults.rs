//! `fakecloud faults`: the fault rules of calls.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;
use serde::Serialize;
use terminal::{Column, Format, OutputFormat, Row};

use super::output;
use super::{Client, call};
use crate::config;
use crate::model::FaultRule;
use crate::rpc::rule_of_message;
use crate::{message_of_rule, proto};

/// An action on rules.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Add the rules of files; all or none
    #[command(after_help = "Example:\n  fakecloud faults add quota.yaml")]
    Add {
        /// Files of rules in YAML: one rule, or a list of them; - is standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Show the rules with the numbers of matching calls and hits; as YAML, a file for `add`
    #[command(after_help = "Examples:\n  fakecloud faults list\n  fakecloud faults list -o yaml > rules.yaml")]
    List {
        #[command(flatten)]
        output: OutputFormat,
    },
    /// Remove rules
    #[command(after_help = "Examples:\n  fakecloud faults remove quota\n  fakecloud faults remove --all")]
    Remove {
        /// Their names
        #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// All rules
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleRow {
    name: String,
    seen: u64,
    hits: u64,
    rule: FaultRule,
}

impl Row for RuleRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("NAME"),
        Column::Shown("CALL"),
        Column::Shown("MACHINE"),
        Column::Shown("ANSWER"),
        Column::Shown("MATCHED"),
        Column::Shown("HITS"),
    ];

    fn cells(&self) -> Vec<String> {
        let call = self
            .rule
            .matches
            .call
            .map_or_else(|| "any".to_owned(), |operation| operation.to_string());
        vec![
            self.name.clone(),
            call,
            self.rule.matches.machine.clone().unwrap_or_default(),
            self.rule.answered().name().to_owned(),
            self.seen.to_string(),
            self.hits.to_string(),
        ]
    }
}

impl Action {
    pub(super) async fn perform(self, client: &mut Client, out: &mut impl Write) -> anyhow::Result<()> {
        match self {
            Self::Add { files } => add(&files, client, out).await,
            Self::List { output } => {
                let rows = rows(client).await?;
                if output.format == Format::Yaml {
                    let rules: Vec<&FaultRule> = rows.iter().map(|row| &row.rule).collect();
                    let text = serde_saphyr::to_string(&rules).context("cannot write the rules as YAML")?;
                    return out
                        .write_all(text.as_bytes())
                        .context("cannot write to standard output");
                }
                output::print(output.format, &rows, out)
            }
            Self::Remove { names, all } => {
                let names = if all {
                    rows(client).await?.into_iter().map(|row| row.name).collect()
                } else {
                    names
                };
                for id in names {
                    let fault = call(client.remove_fault(proto::RemoveFaultRequest { id })).await?;
                    writeln!(
                        out,
                        "{} is removed: {} calls matched, {} were hit",
                        fault.id, fault.seen, fault.hits
                    )
                    .context("cannot write to standard output")?;
                }
                Ok(())
            }
        }
    }
}

async fn rows(client: &mut Client) -> anyhow::Result<Vec<RuleRow>> {
    let list = call(client.list_faults(proto::ListFaultsRequest {})).await?;
    let row = |fault: proto::Fault| {
        Ok(RuleRow {
            name: fault.id.clone(),
            seen: fault.seen,
            hits: fault.hits,
            rule: rule_of_message(fault)?,
        })
    };
    list.faults.into_iter().map(row).collect()
}

async fn add(files: &[PathBuf], client: &mut Client, out: &mut impl Write) -> anyhow::Result<()> {
    let mut rules = Vec::new();
    for file in files {
        let (name, text) = read(file)?;
        rules.extend(config::read_rules(&name, &text)?);
        for deprecation in config::deprecations(&name, &text).iter() {
            eprintln!("warning: {deprecation}");
        }
    }
    let mut added: Vec<String> = Vec::new();
    for rule in rules {
        match call(client.add_fault(message_of_rule(rule))).await {
            Ok(fault) => added.push(fault.id),
            Err(error) => {
                // All or none; a rule that cannot be removed again is named.
                for id in added {
                    if call(client.remove_fault(proto::RemoveFaultRequest { id: id.clone() }))
                        .await
                        .is_err()
                    {
                        bail!("{error}; the rule {id} was added before, and removing it failed too");
                    }
                }
                return Err(error);
            }
        }
    }
    for id in added {
        writeln!(out, "{id} is added").context("cannot write to standard output")?;
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<(String, String)> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
        return Ok(("standard input".to_owned(), text));
    }
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read the rules {name}"))?;
    Ok((name, text))
}
