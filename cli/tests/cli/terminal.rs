//! A pseudo-terminal of 80 columns and 24 lines, of which a test holds the end of the person.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::Read as _,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    },
    process::Command,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::prelude::*;

pub(crate) const COLUMNS: usize = 80;

/// The end of the person, and the end of the command.
pub(crate) fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&person).expect("it is ours");
    unlockpt(&person).expect("it is ours");
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&person, size).expect("it is ours");
    let name = ptsname(&person, Vec::new()).expect("it has a name");
    let no_controlling = i32::try_from(OpenptFlags::NOCTTY.bits()).expect("a flag of open(2)");
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(no_controlling);
    let command = options.open(OsStr::from_bytes(name.as_bytes())).expect("it is ours");
    (File::from(person), command)
}

/// What a command without input shows at a terminal, standard output and standard error together.
pub(crate) fn shown_at_terminal(command: &mut Command) -> String {
    let (mut person, terminal) = terminal();
    let copy = terminal.try_clone().expect("a descriptor");
    // The environment of the test is not the person's.
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        if !command.get_envs().any(|(name, _)| name == variable) {
            command.env_remove(variable);
        }
    }
    if !command.get_envs().any(|(name, _)| name == "TERM") {
        command.env("TERM", "xterm-256color");
    }
    command.stdout(OwnedFd::from(copy)).stderr(OwnedFd::from(terminal));
    let mut child = started(command);
    // The command's copies of the terminal are closed with it.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // When the other end is closed, a read fails on Linux, and ends on macOS.
    while let Ok(read @ 1..) = person.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
    }
    child.wait().expect("it ends");
    String::from_utf8_lossy(&shown).replace("\r\n", "\n")
}

/// The text without escape sequences.
pub(crate) fn visible(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest =
        parts.map(|part| part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest));
    rest.fold(first, |seen, part| seen + part)
}
