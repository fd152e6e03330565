//! Writes `crates/proto/src/gen` from `crates/proto/proto`, or says whether it is fresh. Called by `cargo xtask proto`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use anyhow::{Context as _, bail};
use prost::Message as _;

/// What is generated, by file name.
type Files = BTreeMap<String, Vec<u8>>;

/// What the reflection service serves, comments included.
const DESCRIPTOR: &str = "descriptor.bin";

fn main() -> ExitCode {
    match run(env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The whole chain: where protox says the line and column.
            io::Write::write_fmt(&mut io::stderr(), format_args!("codegen: {error:#}\n")).ok();
            ExitCode::FAILURE
        }
    }
}

fn run(argument: Option<&str>) -> anyhow::Result<()> {
    let proto = proto_crate();
    let target = proto.join("src/gen");
    let files = generate(&proto.join("proto"))?;
    match argument {
        None => write(&target, &files),
        Some("--check") => check(&target, &files),
        Some(other) => bail!("unknown argument {other:?}; there is --check"),
    }
}

fn proto_crate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/proto")
}

/// Everything that `src/gen` is to hold.
fn generate(root: &Path) -> anyhow::Result<Files> {
    let folder = root.join("durable/v1");
    let mut sources = Vec::new();
    for entry in
        fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?
    {
        sources.push(entry?.path());
    }
    sources.retain(|path| path.extension().is_some_and(|kind| kind == "proto"));
    sources.sort();
    let descriptors = protox::Compiler::new([root])
        .context("the folder of .proto files cannot be used")?
        .include_imports(true)
        .include_source_info(true)
        .open_files(&sources)
        .map_err(|error| anyhow::anyhow!("{error:?}"))?
        .file_descriptor_set();
    let output = tempfile::tempdir()?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        // Whoever connects chooses its transport; the contract needs none.
        .build_transport(false)
        .out_dir(output.path())
        .compile_fds(descriptors.clone())?;
    let mut files = Files::new();
    for entry in fs::read_dir(output.path())? {
        let path = entry?.path();
        let name = path
            .file_name()
            .context("a file has a name")?
            .to_string_lossy()
            .into_owned();
        files.insert(name, fs::read(&path)?);
    }
    files.insert(DESCRIPTOR.to_owned(), descriptors.encode_to_vec());
    Ok(files)
}

fn write(target: &Path, files: &Files) -> anyhow::Result<()> {
    fs::create_dir_all(target)?;
    for name in present(target)?
        .keys()
        .filter(|name| !files.contains_key(*name))
    {
        fs::remove_file(target.join(name))?;
    }
    for (name, content) in files {
        fs::write(target.join(name), content)?;
    }
    Ok(())
}

fn check(target: &Path, files: &Files) -> anyhow::Result<()> {
    let present = present(target)?;
    for name in files.keys().chain(present.keys()) {
        if files.get(name) != present.get(name) {
            bail!(
                "{name} in {} is not what the .proto files say; run `cargo xtask proto`",
                target.display()
            );
        }
    }
    Ok(())
}

fn present(target: &Path) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for entry in
        fs::read_dir(target).with_context(|| format!("{} cannot be read", target.display()))?
    {
        let path = entry?.path();
        let name = path
            .file_name()
            .context("a file has a name")?
            .to_string_lossy()
            .into_owned();
        files.insert(name, fs::read(&path)?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_code_is_what_the_proto_files_say() {
        let proto = proto_crate();
        let files = generate(&proto.join("proto")).expect("the .proto files compile");
        check(&proto.join("src/gen"), &files).expect("fresh");
    }

    #[test]
    fn a_stale_file_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::from([("a.rs".to_owned(), b"new".to_vec())]);
        write(folder.path(), &files).expect("written");
        check(folder.path(), &files).expect("fresh");
        fs::write(folder.path().join("a.rs"), "old").expect("written");
        assert!(check(folder.path(), &files).is_err());
        write(folder.path(), &files).expect("written");
        fs::write(folder.path().join("left.rs"), "over").expect("written");
        assert!(check(folder.path(), &files).is_err());
    }
}
