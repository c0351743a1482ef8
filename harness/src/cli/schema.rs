//! `drydock schema`: prints the JSON Schema of a kind of file, for editors.

use std::path::PathBuf;

use clap::Args;

use super::output::{print, say};
use super::{Ended, Outcome, Stop};
use crate::report::files;
use crate::schema::FileKind;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock schema > scenario.schema.json\n  drydock schema plan > plan.schema.json\n  \
                  drydock schema --all schemas\n\nA file refers to its schema in its first line:\n  \
                  # yaml-language-server: $schema=scenario.schema.json"
)]
pub(super) struct SchemaCommand {
    /// The kind of file
    #[arg(value_enum, default_value_t = FileKind::Scenario)]
    kind: FileKind,

    /// Writes the schemas of all kinds into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "kind")]
    all: Option<PathBuf>,
}

impl SchemaCommand {
    pub(super) fn execute(self) -> Ended {
        let Some(folder) = self.all else {
            return print(&self.kind.text());
        };
        for kind in FileKind::ALL {
            let path = folder.join(kind.file_name());
            files::write_file(&path, kind.text().as_bytes())
                .map_err(|error| Stop::Usage(format!("cannot write {}: {error}", path.display())))?;
            say!("{}", path.display());
        }
        Ok(Outcome::Passed)
    }
}
