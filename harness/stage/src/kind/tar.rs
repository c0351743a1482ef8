//! Creates a tar archive of a few files in memory, as the build context of an image.

/// The size of a block in bytes.
const BLOCK: usize = 512;

/// Creates an archive of files with their modes, in `ustar` format. It has no owners and times, so that equal files
/// result in equal archives.
pub(super) fn archive(files: &[(String, u32, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, mode, content) in files {
        archive.extend(header(name, *mode, content.len()));
        archive.extend(content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

/// The header of one file, with octal numbers. The name must fit into its field of 100 bytes.
fn header(name: &str, mode: u32, length: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut write = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    write(0, name);
    write(100, &format!("{mode:07o}"));
    write(108, "0000000");
    write(116, "0000000");
    write(124, &format!("{length:011o}"));
    write(136, "00000000000");
    write(148, "        ");
    write(156, "0");
    write(257, "ustar");
    write(263, "00");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_an_archive() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar");
        std::fs::write(
            &file,
            archive(&[
                ("one".to_owned(), 0o755, b"1\n".to_vec()),
                ("two".to_owned(), 0o644, vec![b'x'; 600]),
            ]),
        )
        .unwrap();
        let listed = std::process::Command::new("tar")
            .arg("-tvf")
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].starts_with("-rwxr-xr-x") && lines[0].ends_with("one"),
            "{text}"
        );
        assert!(lines[1].contains(" 600 ") && lines[1].ends_with("two"), "{text}");
    }
}
