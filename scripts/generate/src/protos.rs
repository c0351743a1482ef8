//! Writes the Rust code of the two gRPC contracts beside their crates' sources. The compiler is
//! pure Rust, so no `protoc` is needed.

use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message as _;

/// The folder of each crate, and its contract.
const CONTRACTS: [(&str, &str); 2] = [("mcm/driver", "driver.proto"), ("fakecloud", "fakecloud.proto")];

/// Regenerates `CRATE/src/proto/PACKAGE.rs` of every contract below the repository's root, and `descriptor.bin` beside
/// it, which servers with reflection tell their clients.
pub fn generate(root: &Path) -> Result<(), Box<dyn Error>> {
    for (folder, file) in CONTRACTS {
        let folder = root.join(folder);
        let target = folder.join("src/proto");
        fs::create_dir_all(&target)?;
        let contract = protox::compile([file], [folder.join("proto")])?;
        fs::write(target.join("descriptor.bin"), contract.encode_to_vec())?;
        tonic_prost_build::configure()
            .btree_map(".")
            .emit_rerun_if_changed(false)
            .out_dir(&target)
            .compile_fds(contract)?;
    }
    Ok(())
}
