//! `drydock man`: man pages of the command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::{Arguments, Ended, Outcome, Stop};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock man ~/.local/share/man/man1")]
pub(super) struct Man {
    /// The folder
    folder: PathBuf,
}

impl Man {
    pub(super) fn execute(&self) -> Ended {
        let written = std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), &self.folder));
        match written {
            Ok(()) => Ok(Outcome::Passed),
            Err(error) => Err(Stop::Usage(format!("cannot write {}: {error}", self.folder.display()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let man = Man {
            folder: folder.path().join("man"),
        };
        man.execute().unwrap();
        let page = |name: &str| std::fs::read_to_string(man.folder.join(name)).unwrap_or_default();
        assert!(page("drydock.1").contains("Exit status"));
        for command in Arguments::command().get_subcommands() {
            let page = page(&format!("drydock-{}.1", command.get_name()));
            assert_eq!(page.is_empty(), command.is_hide_set(), "{}", command.get_name());
        }
    }
}
