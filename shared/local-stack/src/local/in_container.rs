//! Functions in LocalStack's Lambda, which run in containers: no path, no address and no program of another system is there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Emulator, FunctionsIn, LocalError, Options, package::Template};

/// Where Lambda unpacks a function's code.
const TASK: &str = "/var/task";
const CA: &str = "ca.pem";

/// What stands in the template for the architecture that is deployed.
const X86_64: &str = "Architectures: [x86_64]";

pub(super) fn runs_there(emulator: &Emulator) -> bool {
    matches!(emulator, Emulator::LocalStack { functions: FunctionsIn::Lambda, .. })
}

/// Where functions find the additional root certificate, which travels in their zips.
pub(super) fn ca_path() -> String {
    format!("{TASK}/{CA}")
}

/// The files that travel in each zip.
pub(super) fn files(options: &Options) -> Result<Vec<(&'static str, Vec<u8>)>, LocalError> {
    let Some(path) = options.egress_ca.as_deref().filter(|_| runs_there(&options.emulator)) else {
        return Ok(Vec::new());
    };
    Ok(vec![(CA, fs::read(path).map_err(LocalError::file(path))?)])
}

/// What an origin of this machine's own is to a function there.
pub(super) fn warning(options: &Options) -> Option<String> {
    let is_own = |origin: &&String| {
        ["://localhost", "://127."].iter().any(|own| origin.contains(own)) && runs_there(&options.emulator)
    };
    options.egress_allow.iter().find(is_own).map(|origin| {
        format!(
            "{origin} is the function's own container for functions in LocalStack's Lambda: name this machine \
             host.docker.internal, with a certificate for that name"
        )
    })
}

/// The template for the architecture of these binaries, which have to be programs for Linux.
pub(super) fn adapted(
    template: Template,
    binaries: &[(&'static str, PathBuf)],
) -> Result<Template, LocalError> {
    let mut are_for_arm = false;
    for (_, path) in binaries {
        let content = fs::read(path).map_err(LocalError::file(path))?;
        are_for_arm |= architecture(&content, path)? == "arm64";
    }
    if are_for_arm { template.with_line(X86_64, "Architectures: [arm64]") } else { Ok(template) }
}

/// Of an ELF file's header: its magic number, and its machine at byte 18 (System V ABI, chapter 4).
fn architecture(program: &[u8], path: &Path) -> Result<&'static str, LocalError> {
    let machine = program.starts_with(b"\x7fELF").then(|| program.get(18..20)).flatten();
    match machine {
        Some([62, 0]) => Ok("x86_64"),
        Some([183, 0]) => Ok("arm64"),
        Some(_) | None => Err(LocalError::NotForLambda(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use super::*;
    use crate::local::bootstraps::bundles;

    fn options(functions: FunctionsIn) -> Options {
        let emulator = Emulator::LocalStack { endpoint: String::new(), functions };
        let egress_allow = vec!["https://push.example".to_owned(), "https://localhost:8443".to_owned()];
        Options { emulator, egress_allow, ..Options::default() }
    }

    #[test]
    fn a_program_of_another_system_is_refused() {
        let elf = |machine: u8| {
            let mut program = b"\x7fELF".to_vec();
            program.resize(18, 0);
            program.extend([machine, 0, 1]);
            program
        };
        let path = Path::new("target/debug/dispatch");
        assert_eq!(architecture(&elf(62), path).ok(), Some("x86_64"));
        assert_eq!(architecture(&elf(183), path).ok(), Some("arm64"));
        for program in [&elf(8)[..], b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01", b"#!/bin/sh\n", b"\x7fELF", b""] {
            let error = architecture(program, path).expect_err("it is none").to_string();
            assert!(error.contains("target/debug/dispatch") && error.contains("--functions here"), "{error}");
        }
    }

    #[test]
    fn an_additional_root_certificate_travels_in_each_zip() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (ca, program) = (folder.path().join("root.pem"), folder.path().join("dispatch"));
        fs::write(&ca, "-----BEGIN CERTIFICATE-----").expect("the folder is writable");
        fs::write(&program, "a program").expect("the folder is writable");
        let with_ca = |functions| Options { egress_ca: Some(ca.clone()), ..options(functions) };
        assert!(files(&with_ca(FunctionsIn::Here)).expect("nothing is read").is_empty());

        let files = files(&with_ca(FunctionsIn::Lambda)).expect("it is there");
        let bundles = bundles(&[("dispatch", program)], &files).expect("it is there");
        let mut zip = zip::ZipArchive::new(Cursor::new(&bundles[0].zip)).expect("a zip");
        let mut text = |name: &str| {
            let mut text = String::new();
            zip.by_name(name).expect(name).read_to_string(&mut text).expect("text");
            text
        };
        assert_eq!(ca_path(), "/var/task/ca.pem");
        assert_eq!([text("bootstrap"), text("ca.pem")], ["a program", "-----BEGIN CERTIFICATE-----"]);
        fs::remove_file(&ca).expect("it is ours");
        let missing = super::files(&with_ca(FunctionsIn::Lambda)).expect_err("it is gone").to_string();
        assert!(missing.contains("root.pem"), "{missing}");
    }

    #[test]
    fn the_template_is_deployed_for_the_architecture_of_the_programs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("dispatch");
        let template = Template(include_str!("../../../../infra/template.yaml").to_owned());
        for (machine, expected) in [(62, X86_64), (183, "Architectures: [arm64]")] {
            let mut program = b"\x7fELF".to_vec();
            program.resize(18, 0);
            program.extend([machine, 0]);
            fs::write(&path, program).expect("the folder is writable");
            let adapted = adapted(template.clone(), &[("dispatch", path.clone())]).expect("a program");
            assert!(adapted.0.contains(expected), "{expected}");
        }
    }

    #[test]
    fn an_origin_of_this_machine_is_named_for_containers_alone() {
        let warning = |functions| warning(&options(functions));
        assert!(warning(FunctionsIn::Lambda).is_some_and(|it| it.contains("https://localhost:8443")));
        assert_eq!(warning(FunctionsIn::Here), None);
    }
}
