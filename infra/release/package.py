"""Packs what a release has.

    package.py bundle  BOOTSTRAPS ARCHITECTURE VERSION OUTPUT    the zips of the functions, the templates, and their checksums, as one archive
    package.py command PROGRAMS TARGET VERSION OUTPUT            the command line `redial` for one target, with the functions, as an archive
    package.py module  VERSION OUTPUT                            the Terraform module, as an archive
    package.py cdk     VERSION OUTPUT                            the CDK construct, as a package of npm
    package.py sbom    TARGET BUILT VERSION OUTPUT NAME…         what executables consist of, as CycloneDX, by cargo-cyclonedx
    package.py notes   VERSION                                   the part of CHANGELOG.md for a version
    package.py sums    OUTPUT                                    SHA256SUMS of all files in OUTPUT

BOOTSTRAPS is a folder as `cargo lambda build` fills it: dispatch/bootstrap, cleanup/bootstrap, ingest/bootstrap. PROGRAMS is one as `cargo
build` fills it: redial, dispatch, cleanup, ingest. BUILT is what the archive of the executables is named after: an architecture or a target. Archives depend on the
content of their files alone: no times, no names of users. `.github/workflows/release.yml` runs this; it runs on any machine. `module` and
`cdk` need PyYAML, and `cdk` the tools of infra/ci/npm, in the folder that `REDIAL_NPM` names.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import template

ROOT = template.INFRA.parent
SUMS = "SHA256SUMS"
# The earliest time that a zip can have.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
# Machine of an ELF executable (e_machine).
MACHINES = {"x86_64": 62, "arm64": 183}
SAMCONFIG = """\
# `sam deploy --guided` deploys this release: nothing is built.
version = 0.1

[default.global.parameters]
stack_name = "redial"

[default.deploy.parameters]
template_file = "template.yaml"
capabilities = "CAPABILITY_IAM"
confirm_changeset = true
resolve_s3 = true
"""


def machine(executable):
    """The architecture that an ELF executable is built for."""
    header = executable[:20]
    if header[:6] != b"\x7fELF\x02\x01":
        return None
    number = int.from_bytes(header[18:20], "little")
    return next((name for name, value in MACHINES.items() if value == number), None)


def zipped(bootstrap):
    """What Lambda takes: one executable named `bootstrap`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("bootstrap", ZIP_TIME)
        entry.create_system, entry.external_attr = 3, 0o100755 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, bootstrap, compresslevel=9)
    return buffer.getvalue()


def sums(folder):
    """A line for each file below a folder, as `sha256sum` writes and checks it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))


def archived(folder):
    """`folder.tar.gz`, with the folder as its one entry."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in [folder, *sorted(folder.rglob("*"))]:
            entry = archive.gettarinfo(path, path.relative_to(folder.parent).as_posix())
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
            archive.addfile(entry, path.open("rb") if path.is_file() else None)
    packed = folder.parent / f"{folder.name}.tar.gz"
    packed.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))
    return packed


def empty(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def bundle(bootstraps, architecture, version, output):
    folder = empty(output / f"redial-{version}-{architecture}")
    (folder / "functions").mkdir()
    for function in template.FUNCTIONS:
        executable = (bootstraps / function / "bootstrap").read_bytes()
        built_for = machine(executable)
        if built_for != architecture:
            sys.exit(f"{bootstraps / function / 'bootstrap'}: built for {built_for or 'something else'}, expected {architecture}")
        (folder / "functions" / f"{function}.zip").write_bytes(zipped(executable))
    (folder / "template.yaml").write_text(template.for_sam(architecture))
    (folder / "stack.yaml").write_text(template.for_s3(architecture))
    (folder / "samconfig.toml").write_text(SAMCONFIG)
    shutil.copyfile(template.INFRA / template.WAIT, folder / template.WAIT)
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    sums(folder)
    return archived(folder)


def command(programs, target, version, output):
    """With functions that run on the machine itself: its local stack and its demos need no sources."""
    folder = empty(output / f"redial-{version}-{target}")
    (folder / "functions").mkdir()
    for name, packed in {"redial": folder / "redial", **{it: folder / "functions" / it for it in template.FUNCTIONS}}.items():
        shutil.copyfile(programs / name, packed)
        packed.chmod(0o755)
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    packed = archived(folder)
    shutil.rmtree(folder)
    return packed


def written(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)


def module(version, output):
    import declared

    folder = output / f"redial-{version}-terraform"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template.INFRA / "terraform", folder, ignore=shutil.ignore_patterns(".terraform*"))
    written(folder, declared.terraform())
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    packed = archived(folder)
    shutil.rmtree(folder)
    return packed


def cdk(version, output):
    import declared

    npm = pathlib.Path(os.environ.get("REDIAL_NPM", ROOT / "target/ci/npm/node_modules"))
    folder = output / "redial-cdk"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template.INFRA / "cdk", folder, ignore=shutil.ignore_patterns("node_modules", "lib"))
    written(folder / "src", declared.typescript())
    manifest = json.loads((folder / "package.json").read_text())
    (folder / "package.json").write_text(json.dumps({**manifest, "version": version}, indent=2) + "\n")
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    (folder / "node_modules").symlink_to(npm)
    subprocess.run([npm / ".bin/tsc", "--project", folder], check=True, stdin=subprocess.DEVNULL)
    (folder / "node_modules").unlink()
    pack = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", output.resolve()]
    subprocess.run(pack, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    shutil.rmtree(folder)
    return output / f"redial-cdk-{version}.tgz"


def sbom(target, built, version, output, names):
    """A file for each executable of the workspace that is named: what it consists of for this target, without what builds it."""
    command = ["cargo", "cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--describe", "binaries", "--no-build-deps"]
    subprocess.run([*command, "--target", target], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    # It writes beside each Cargo.toml of the workspace.
    described = [path for part in ["cli", "functions", "shared"] for path in (ROOT / part).rglob("*_bin.cdx.json")]
    found = {path.name.removesuffix("_bin.cdx.json"): path for path in described}
    for name, path in found.items():
        text = path.read_text().replace(f"{ROOT}/", "")
        path.unlink()
        if name in names:
            output.mkdir(parents=True, exist_ok=True)
            (output / f"redial-{version}-{name}-{built}.cdx.json").write_text(text)
    missing = set(names) - found.keys()
    if missing:
        sys.exit(f"cargo cyclonedx described {sorted(found)}, expected {sorted(missing)} as well")


def notes(version):
    """What CHANGELOG.md says of a version, or of what is not released yet."""
    sections = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]
    for title in (version, "Unreleased"):
        for section in sections:
            if section.split("\n", 1)[0].split(" ")[0] == title:
                return section.split("\n", 1)[1].strip() + "\n"
    sys.exit(f"CHANGELOG.md has no section for {version}")


def main():
    match sys.argv[1:]:
        case ["bundle", bootstraps, architecture, version, output] if architecture in MACHINES:
            print(bundle(pathlib.Path(bootstraps), architecture, version, pathlib.Path(output)))
        case ["command", programs, target, version, output]:
            print(command(pathlib.Path(programs), target, version, pathlib.Path(output)))
        case ["module", version, output]:
            print(module(version, pathlib.Path(output)))
        case ["cdk", version, output]:
            print(cdk(version, pathlib.Path(output)))
        case ["sbom", target, built, version, output, *executables] if executables:
            sbom(target, built, version, pathlib.Path(output), executables)
        case ["notes", version]:
            print(notes(version), end="")
        case ["sums", output]:
            sums(pathlib.Path(output))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
