//! Regenerates what is generated and committed; `make generate` runs it. Its own workspace, so that
//! nothing it needs is compiled with the rest. `generate protos` and `generate kubernetes` run one
//! part only.

mod kubernetes;
mod protos;

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let part = std::env::args().nth(1);
    match part.as_deref() {
        None => {
            protos::generate(&root)?;
            kubernetes::generate(&root)
        }
        Some("protos") => protos::generate(&root),
        Some("kubernetes") => kubernetes::generate(&root),
        Some(other) => Err(format!("there is no part {other:?} to generate: say protos, kubernetes or nothing").into()),
    }
}
