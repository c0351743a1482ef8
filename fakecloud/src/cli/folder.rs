//! `fakecloud ledger check` and `fakecloud ledger repair`: the files of a ledger that no process uses.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Subcommand;

use crate::inspect::{Checked, Plan, check, repair};

/// An action on the folder of a ledger (`fakecloud serve --data`).
#[derive(Debug, Subcommand)]
pub enum FolderAction {
    /// Say what the files contain, and whether they are sound; changes nothing. Exit status: 0 sound, 1 damaged or
    /// contradictory, 2 the folder cannot be checked
    #[command(after_help = "Example:\n  fakecloud ledger check ledger")]
    Check {
        /// The folder
        folder: PathBuf,
    },
    /// Write what can be recovered of damaged files, and say what is kept and what is lost. Exit status: 0 sound or
    /// repaired, 1 nothing can be recovered or the rows contradict each other (then nothing is changed), 2 the folder
    /// cannot be repaired
    #[command(after_help = "Example:\n  fakecloud ledger repair ledger --to repaired")]
    Repair {
        /// The folder. Without --to its files are replaced; copies of the damaged ones are kept in a new folder beside
        folder: PathBuf,
        /// Write the repaired files into this folder, which is created, and leave the damaged ones as they are
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
}

impl FolderAction {
    pub(super) fn perform(self, out: &mut impl Write) -> anyhow::Result<()> {
        match self {
            Self::Check { folder } => check_folder(&folder, out),
            Self::Repair { folder, to } => repair_folder(&folder, to.as_deref(), out),
        }
    }
}

fn check_folder(folder: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let name = folder.display();
    match check(folder)? {
        Checked::Sound { summary, notes } => {
            writeln!(out, "{name} is sound.\ncontains: {summary}")?;
            for note in notes {
                writeln!(out, "note: {note}")?;
            }
            Ok(())
        }
        Checked::Contradictory { summary, error } => {
            writeln!(out, "No file of {name} is damaged.\ncontains: {summary}")?;
            bail!("{name}: {error}")
        }
        Checked::Damaged { damage, plan } => {
            match plan {
                Ok(plan) => {
                    writeln!(out, "`fakecloud ledger repair {name}` can recover:")?;
                    show(&plan, "keeps", "loses", out)?;
                }
                Err(cause) => writeln!(out, "Nothing can be recovered: {cause}.")?,
            }
            bail!("{name}/{damage}")
        }
    }
}

fn repair_folder(folder: &Path, to: Option<&Path>, out: &mut impl Write) -> anyhow::Result<()> {
    let Some(repaired) = repair(folder, to)? else {
        writeln!(out, "{} is sound; nothing is written.", folder.display())?;
        return Ok(());
    };
    writeln!(out, "{}/{}", folder.display(), repaired.damage)?;
    show(&repaired.plan, "kept", "lost", out)?;
    match &repaired.backup {
        Some(backup) => writeln!(
            out,
            "{} is repaired; the damaged files are in {}.",
            folder.display(),
            backup.display()
        )?,
        None => writeln!(out, "The repaired files are in {}.", repaired.folder.display())?,
    }
    Ok(())
}

fn show(plan: &Plan, kept: &str, lost: &str, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{kept}: {}", plan.kept)?;
    for loss in &plan.lost {
        writeln!(out, "{lost}: {loss}")?;
    }
    if plan.lost.is_empty() {
        writeln!(out, "{lost}: nothing")?;
    }
    if !plan.vms.is_empty() {
        writeln!(out, "VMs that differ from their last record in the audit log:")?;
    }
    for vm in &plan.vms {
        writeln!(out, "- {vm}")?;
    }
    Ok(())
}
