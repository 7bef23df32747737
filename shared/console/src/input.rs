//! A command's input: a file, or standard input, both of which can be read twice.
//!
//! Sending checks everything before it sends anything, so it reads its input twice. A file is simply read again; a pipe is
//! buffered in memory, and beyond a limit in a temporary file.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::Path,
};

use tempfile::SpooledTempFile;

use crate::failure::Failure;

/// The bytes of a pipe that are kept in memory.
const IN_MEMORY: usize = 8 * 1024 * 1024;

/// Stands for standard input on the command line.
pub const STDIN: &str = "-";

/// Can be read again from its start.
pub trait Rereadable: Read + Seek + Send {}

impl<T: Read + Seek + Send> Rereadable for T {}

/// Opens a file, or standard input for `-`.
pub fn open(path: &Path) -> Result<Box<dyn Rereadable>, Failure> {
    opened(path).map_err(|error| unreadable(path, &error))
}

/// All of a file, or of standard input for `-`, up to `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let mut text = String::new();
    let bytes = open(path)?.take(limit.saturating_add(1)).read_to_string(&mut text);
    match bytes.map_err(|error| unreadable(path, &error))? as u64 {
        bytes if bytes > limit => Err(Failure::input(format!("{} is longer than {limit} bytes", name(path)))),
        _ => Ok(text),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::input(format!("{} cannot be read: {error}", name(path)))
}

fn opened(path: &Path) -> io::Result<Box<dyn Rereadable>> {
    if path == Path::new(STDIN) {
        return kept(io::stdin().lock());
    }
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_file() { Ok(Box::new(file)) } else { kept(file) }
}

fn kept(mut pipe: impl Read) -> io::Result<Box<dyn Rereadable>> {
    let mut spool = SpooledTempFile::new(IN_MEMORY);
    io::copy(&mut pipe, &mut spool)?;
    spool.rewind()?;
    Ok(Box::new(spool))
}

fn name(path: &Path) -> String {
    if path == Path::new(STDIN) { "standard input".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_can_be_read_twice() {
        let mut kept = kept(&b"some text"[..]).expect("memory");
        for _ in 0..2 {
            let mut text = String::new();
            kept.read_to_string(&mut text).expect("readable");
            assert_eq!(text, "some text");
            kept.rewind().expect("it starts again");
        }
    }

    #[test]
    fn missing_files_folders_and_long_files_are_refused_by_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let long = folder.path().join("long.json");
        std::fs::write(&long, "12345").expect("writable");
        for (path, limit, words) in
            [(folder.path().join("none.json"), 10, "none.json"), (long.clone(), 4, "longer than 4 bytes")]
        {
            let failure = read_text(&path, limit).expect_err("unfit");
            assert!(matches!(&failure, Failure::Input(lines) if lines[0].contains(words)), "{failure:?}");
        }
        assert!(open(folder.path()).is_err());
        assert_eq!(read_text(&long, 5).expect("short enough"), "12345");
    }
}
