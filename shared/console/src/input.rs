//! What a command reads: a file, or standard input, either of which can be read a second time.
//!
//! Sending checks everything before it sends anything, so its input is read twice. A file is simply read again; what
//! comes through a pipe is kept meanwhile: in memory while it is short, in a nameless temporary file once it is long.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
};

use tempfile::SpooledTempFile;

use crate::failure::Failure;

/// What is kept in memory of a pipe, in bytes.
const IN_MEMORY: usize = 8 * 1024 * 1024;

/// Stands for standard input on the command line.
pub const STDIN: &str = "-";

/// Something that can be read from its start as often as one likes.
pub trait Rereadable: Read + Seek + Send {}

impl<T: Read + Seek + Send> Rereadable for T {}

#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {source}", name(path))]
struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

/// Opens a file, or standard input for `-`.
pub fn open(path: &Path) -> Result<Box<dyn Rereadable>, Failure> {
    opened(path).map_err(|source| Failure::input(Unreadable { path: path.to_owned(), source }.to_string()))
}

/// All of a file, or of standard input for `-`, of which at most `limit` bytes are expected.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let mut text = String::new();
    let too_long = || Failure::input(format!("{} is longer than {limit} bytes", name(path)));
    let read = open(path)?.take(limit.saturating_add(1)).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 > limit => Err(too_long()),
        Ok(_) => Ok(text),
        Err(source) => Err(Failure::input(Unreadable { path: path.to_owned(), source }.to_string())),
    }
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
    fn an_unreadable_or_too_long_file_is_named_in_the_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let long = folder.path().join("long.json");
        std::fs::write(&long, "12345").expect("writable");
        for (path, limit, said) in
            [(folder.path().join("none.json"), 10, "none.json"), (long.clone(), 4, "longer than 4 bytes")]
        {
            let failure = read_text(&path, limit).expect_err("unfit");
            assert!(matches!(&failure, Failure::Input(lines) if lines[0].contains(said)), "{failure:?}");
        }
        assert!(open(folder.path()).is_err());
        assert_eq!(read_text(&long, 5).expect("short enough"), "12345");
    }
}
