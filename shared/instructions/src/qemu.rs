//! Counts by QEMU's emulation of one program: SHA and ADX instructions are among those that it knows.
//!
//! QEMU logs each block of instructions when it translates it, and each time that it carries one out:
//!
//! ```text
//! IN:
//! 0x7f5fa62f7b70:  48 89 e7                 movq     %rsp, %rdi
//! 0x7f5fa62f7b73:  e8 f8 0b 00 00           callq    0x7f5fa62f8770
//!
//! Trace 0: 0x7f5f98000100 [00000000/00007f5fa62f7b70/1040c0b3/00000200]
//! ```
//!
//! The count is what the blocks have, each time. Plug-ins of QEMU count faster, but not every distribution builds QEMU with them.

use std::collections::HashMap;
use std::env::consts::ARCH;
use std::io::{self, BufRead};
use std::path::Path;
use std::process::Command;

/// The first release that knows SHA instructions of x86_64.
const LEAST: (u32, u32) = (8, 2);

/// QEMU for programs of this processor, if it is installed and new enough.
pub fn program() -> Result<String, String> {
    let program = format!("qemu-{ARCH}");
    let advice = format!(
        "counting with QEMU requires {program} {}.{} or later, e.g. qemu-user of Debian 13",
        LEAST.0, LEAST.1
    );
    let printed = Command::new(&program).arg("--version").output();
    let printed = printed.map_err(|error| format!("{program} does not start ({error}): {advice}"))?.stdout;
    let printed = String::from_utf8_lossy(&printed);
    match version(&printed) {
        Some(found) if found >= LEAST => Ok(program),
        _ => Err(format!("found {:?}: {advice}", printed.lines().next().unwrap_or_default())),
    }
}

/// In `qemu-x86_64 version 10.0.2 (Debian …)`: (10, 0).
fn version(printed: &str) -> Option<(u32, u32)> {
    let mut parts = printed.split_once("version ")?.1.split(['.', ' ']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The arguments before the program's path, for a log that [`count`] reads.
pub fn options(log: &Path) -> String {
    format!("-cpu max -d in_asm,exec,nochain -D '{}'", log.display())
}

/// The instructions that this log has, which ends with the program.
pub fn count(log: impl BufRead) -> io::Result<u64> {
    let mut blocks = Blocks::default();
    for line in log.split(b'\n') {
        blocks.read(&String::from_utf8_lossy(&line?));
    }
    if blocks.carried_out == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no instructions"));
    }
    Ok(blocks.carried_out)
}

#[derive(Default, Debug)]
struct Blocks {
    /// The address of the block whose instructions are being listed, and their number so far.
    listed: Option<(u64, u64)>,
    /// What was translated and not yet carried out: the instructions of a block by its address in the program.
    translated: HashMap<u64, u64>,
    /// The instructions by the address of the translation: one address in the program can have several.
    known: HashMap<u64, u64>,
    carried_out: u64,
}

impl Blocks {
    fn read(&mut self, line: &str) {
        if let Some(trace) = line.strip_prefix("Trace ") {
            self.end_of_list();
            self.carried_out += self.of_block(trace).unwrap_or_default();
        } else if line.starts_with("IN:") {
            self.end_of_list();
            self.listed = Some((0, 0));
        } else if let (Some((block, number)), Some(address)) = (self.listed, address_of_instruction(line)) {
            self.listed = Some((if number == 0 { address } else { block }, number + 1));
        }
    }

    fn end_of_list(&mut self) {
        if let Some((block, number)) = self.listed.take() {
            self.translated.insert(block, number);
        }
    }

    /// Of `0: 0x7f5f98000100 [00000000/00007f5fa62f7b70/1040c0b3/00000200]`.
    fn of_block(&mut self, trace: &str) -> Option<u64> {
        let mut words = trace.split(' ').skip(1);
        let translation = hexadecimal(words.next()?)?;
        let block = hexadecimal(words.next()?.split('/').nth(1)?)?;
        if let Some(number) = self.translated.remove(&block) {
            self.known.insert(translation, number);
        }
        self.known.get(&translation).copied()
    }
}

/// The address, if the line has an instruction. The bytes of a long one of x86_64 go on in a line that has no more than bytes.
fn address_of_instruction(line: &str) -> Option<u64> {
    let (address, rest) = line.split_once(':')?;
    let is_byte = |word: &str| word.len() == 2 && word.bytes().all(|digit| digit.is_ascii_hexdigit());
    rest.split_whitespace().any(|word| !is_byte(word)).then(|| hexadecimal(address)).flatten()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
----------------
IN:
0x7f5fa62f7b70:  48 89 e7                 movq     %rsp, %rdi
0x7f5fa62f7b73:  e8 f8 0b 00 00           callq    0x7f5fa62f8770

Trace 0: 0x7f5f98000100 [00000000/00007f5fa62f7b70/1040c0b3/00000200] _start
----------------
IN: add
0x7f5fa62f8770:  66 0f 1f 84 00 00 00 00  nopw     (%rax, %rax)
0x7f5fa62f8778:  00
0x7f5fa62f8779:  c3                       retq

Trace 0: 0x7f5f98000200 [00000000/00007f5fa62f8770/1040c0b3/00000200]
Trace 0: 0x7f5f98000100 [00000000/00007f5fa62f7b70/1040c0b3/00000200]
Trace 1: 0x7f5f98000200 [00000000/00007f5fa62f8770/1040c0b3/00000200]
";

    #[test]
    fn each_block_counts_each_time_that_it_is_carried_out() {
        assert_eq!(count(LOG.as_bytes()).expect("it is read"), 8);
    }

    #[test]
    fn one_address_translated_again_has_the_number_of_its_new_translation() {
        let again = "IN:\n0x7f5fa62f7b70:  d2800000  mov x0, #0\n\n\
                     Trace 0: 0x7f5f98000300 [00000000/00007f5fa62f7b70/1040c0b3/00000201]\n\
                     Trace 0: 0x7f5f98000100 [00000000/00007f5fa62f7b70/1040c0b3/00000200]\n";
        assert_eq!(count(format!("{LOG}{again}").as_bytes()).expect("it is read"), 8 + 1 + 2);
    }

    #[test]
    fn a_log_without_instructions_is_an_error() {
        // As QEMU writes it that was built without a disassembler.
        let bytes_alone = "IN:\nOBJD-T: 4889e7\n\nTrace 0: 0x7f5f98000100 [00000000/00007f5fa62f7b70/0/0]\n";
        assert_eq!(count(bytes_alone.as_bytes()).expect_err("none").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_version_is_found_in_what_qemu_prints() {
        assert_eq!(version("qemu-x86_64 version 10.0.2 (Debian 1:10.0.2+ds-2)\n"), Some((10, 0)));
        assert_eq!(version("qemu-aarch64 version 7.2.15\n"), Some((7, 2)));
        assert_eq!(version("unknown option"), None);
    }
}
