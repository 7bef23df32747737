//! Makes every policy of `infra/policies` part of the crate: the presets, and beside them the operator's own.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let own = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../infra/policies");
    println!("cargo:rerun-if-changed={}", own.display());
    let mut code = String::new();
    for (constant, folder) in [("PRESETS", own.join("presets")), ("OWN", own)] {
        writeln!(code, "const {constant}: &[(&str, &str)] = &[").expect("memory");
        for file in json_files(&folder)? {
            let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            writeln!(code, "    ({name:?}, include_str!({:?})),", fs::canonicalize(&file)?).expect("memory");
        }
        writeln!(code, "];").expect("memory");
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("policies.rs"), code)
}

fn json_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    Ok(files)
}
