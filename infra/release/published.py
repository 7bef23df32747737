"""Checks what `.github/workflows/release.yml` uploads and signs: the lists of what executables consist of, the names of all files, and the
order in which checksums are made, attested and signed. What only GitHub can do, the attestation and the signature themselves, is not run.
"""

import importlib.resources
import json
import pathlib
import re
import subprocess
import tempfile

import jsonschema
import package
import referencing
import template
import yaml

WORKFLOW = package.ROOT / ".github/workflows/release.yml"
COMMAND = ["redial", *template.FUNCTIONS]
# Of a bundle's executables, by its architecture.
TARGETS = {"x86_64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}
# Crates that every executable of this name has, and crates of the workspace that it does not have.
HAS = {"dispatch": ("ring", "rustls"), "cleanup": ("ring",), "ingest": ("ring",), "redial": ("clap", "ring")}
BASE = "http://cyclonedx.org/schema/"
HAS_NOT = {"redial-instructions", "redial-testkit", "redial-tests", "redial-simulation"}


def workflow():
    return yaml.safe_load(WORKFLOW.read_text())


def schema():
    """That of CycloneDX 1.5, with the two that it refers to, from the package of its makers."""
    folder = importlib.resources.files("cyclonedx.schema") / "_res"
    read = {name: json.loads((folder / f"{name}.schema.json").read_text()) for name in ("bom-1.5.SNAPSHOT", "spdx.SNAPSHOT", "jsf-0.82.SNAPSHOT")}
    # They refer to each other by the names of their files.
    named = [(f"{base}{name}.schema.json", document) for name, document in read.items() for base in ("", BASE)]
    registry = referencing.Registry().with_resources((name, referencing.Resource.from_contents(document)) for name, document in named)
    return jsonschema.Draft7Validator(read["bom-1.5.SNAPSHOT"], registry=registry)


def locked():
    lock = (package.ROOT / "Cargo.lock").read_text()
    return set(re.findall(r'^\[\[package\]\]\nname = "(.*)"\nversion = "(.*)"$', lock, re.MULTILINE))


def check_sbom(path, name, version, validator, packages):
    text = path.read_text()
    document = json.loads(text)
    wrong = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    assert not wrong, f"{path.name} is no CycloneDX 1.5: {wrong[:5]}"
    assert document["bomFormat"] == "CycloneDX" and document["specVersion"] == "1.5", document.keys()
    described = document["metadata"]["component"]
    assert (described["name"], described["version"]) == (name, version), described
    components = document["components"]
    listed = {(it["name"], it["version"]) for it in components}
    assert listed <= packages, f"{path.name} has what Cargo.lock has not: {sorted(listed - packages)}"
    names = {name for name, _ in listed}
    assert names >= set(HAS[name]), f"{path.name} lacks {set(HAS[name]) - names}"
    assert not names & HAS_NOT, f"{path.name} has {names & HAS_NOT}, which only tests have"
    # A vulnerable crate is looked up by its package URL.
    for it in components:
        if not it["name"].startswith("redial"):
            assert it["purl"].startswith(f"pkg:cargo/{it['name']}@{it['version']}"), it
    refs = {described["bom-ref"], *(it["bom-ref"] for it in components)}
    edges = {ref for node in document["dependencies"] for ref in [node["ref"], *node.get("dependsOn", [])]}
    assert edges <= refs, f"{path.name}: dependencies lead to {sorted(edges - refs)[:3]}"
    assert str(package.ROOT) not in text, f"{path.name} has a path of the machine that made it"
    return len(listed)


def check_sboms(version, output):
    """Those of all jobs, made as infra/release/run makes them; how many there are, and how many crates are in the largest."""
    for architecture, target in TARGETS.items():
        package.sbom(target, architecture, version, output, template.FUNCTIONS)
    for target in command_targets():
        package.sbom(target, target, version, output, COMMAND)
    left = subprocess.run(["git", "ls-files", "--others", "*.cdx.json"], cwd=package.ROOT, check=True, capture_output=True, text=True).stdout
    left = [name for name in left.splitlines() if not name.startswith("target/")]
    assert not left, f"cargo cyclonedx left files in the checkout: {left}"
    made = sorted(output.glob("*.cdx.json"))
    expected = {f"redial-{version}-{name}-{built}.cdx.json" for built, names in executables() for name in names}
    assert {path.name for path in made} == expected, {path.name for path in made} ^ expected
    validator, packages = schema(), locked()
    crates = []
    for path in made:
        name = path.name.removeprefix(f"redial-{version}-").split("-", 1)[0]
        crates.append(check_sbom(path, name, version, validator, packages))
    try:
        package.sbom(TARGETS["x86_64"], "x86_64", version, output / "refused", ["no-such-program"])
    except SystemExit as refusal:
        assert "no-such-program" in str(refusal), refusal
    else:
        raise AssertionError("a program that does not exist was described")
    return len(made), max(crates)


def command_targets():
    return [it["target"] for it in workflow()["jobs"]["command"]["strategy"]["matrix"]["include"]]


def executables():
    """What each job builds executables for, with their names."""
    architectures = workflow()["jobs"]["functions"]["strategy"]["matrix"]["architecture"]
    assert architectures == list(template.ARCHITECTURES), architectures
    return [*((it, template.FUNCTIONS) for it in architectures), *((it, COMMAND) for it in command_targets())]


def documented(version):
    """The files of a release as the page lists them, as patterns."""
    page = (template.INFRA / "docs/deploy.md").read_text()
    table = page.split("| file of a release | |\n", 1)[1].split("\n\n", 1)[0]
    words = {
        "VERSION": re.escape(version),
        "TARGET": "|".join(map(re.escape, command_targets())),
        "ARCHITECTURE": "|".join(template.ARCHITECTURES),
        "NAME": "|".join(COMMAND),
    }
    for row in table.splitlines()[1:]:
        for name in re.findall(r"`([\w.-]+\.(?:tar\.gz|tgz|whl|json)|SHA256SUMS[\w.]*)`", row.split("|")[1]):
            yield re.sub("VERSION|TARGET|ARCHITECTURE|NAME", lambda it: f"(?:{words[it[0]]})", re.escape(name))


def check_names(version, assets):
    """Every file that the jobs make is one of the page's, each of the page's is made, and none has the name of another job's."""
    made = [path.name for path in assets.iterdir()]
    clients = [f"redial-client-{version}.tgz", f"redial_client-{version}-py3-none-any.whl", f"redial-browser-{version}.tgz"]
    # The step `clients` makes and uses them; cosign writes the bundle.
    made += [*clients, "SHA256SUMS.sigstore.json"]
    patterns = list(documented(version))
    unknown = [name for name in made if not any(re.fullmatch(pattern, name) for pattern in patterns)]
    assert not unknown, f"infra/docs/deploy.md does not name {unknown}"
    absent = [pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in made)]
    assert not absent, f"infra/docs/deploy.md names what no job makes: {absent}"
    described = re.findall(r"^    package sbom (.*)$", (template.INFRA / "release/run").read_text(), re.MULTILINE)
    of_functions = f'"$target" "$architecture" "$version" "$output" {" ".join(template.FUNCTIONS)}'
    assert described == [of_functions, '"$target" "$target" "$version" "$output" "${programs[@]}"'], described
    # All artifacts are downloaded into one folder, where a second file of a name would replace the first.
    of_jobs = [f"redial-{version}-{built}.tar.gz" for built, _ in executables()]
    of_jobs += [f"redial-{version}-{name}-{built}.cdx.json" for built, names in executables() for name in names]
    assert len(of_jobs) == len(set(of_jobs)), "two jobs make a file of the same name"
    assert set(of_jobs) <= set(made), set(of_jobs) - set(made)


def check_publication(version, assets):
    """The steps that sign name the file of checksums, after it was made and with what signing needs, and a user can check it as written."""
    publish = workflow()["jobs"]["publish"]
    steps = [step.get("run") or step["uses"] for step in publish["steps"]]

    def place(text):
        found = [at for at, step in enumerate(steps) if text in step]
        assert len(found) == 1, f"the job publish has {len(found)} steps with {text}"
        return found[0]

    order = ["actions/download-artifact", "run sums target/assets", "actions/attest-build-provenance", "cosign sign-blob", "gh release create"]
    places = list(map(place, order))
    assert places == sorted(places), dict(zip(order, places))
    download, attest = publish["steps"][places[0]]["with"], publish["steps"][places[2]]["with"]
    assert download == {"path": "target/assets", "merge-multiple": True}, download
    assert attest == {"subject-checksums": f"target/assets/{package.SUMS}"}, attest
    sign = "cosign sign-blob --yes --bundle target/assets/SHA256SUMS.sigstore.json target/assets/SHA256SUMS"
    assert steps[places[3]] == sign, steps[places[3]]
    assert publish["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}, publish["permissions"]
    assert set(publish["needs"]) == {"check", "functions", "command", "packages"}, publish["needs"]
    # The attestation takes lines of a hash and a name, and makes a subject of each.
    lines = (assets / package.SUMS).read_text().splitlines()
    assert lines and all(re.fullmatch(r"[0-9a-f]{64}  [\w.-]+", line) for line in lines), lines
    page = (template.INFRA / "docs/deploy.md").read_text()
    identity = f"https://github.com/OWNER/redial/{WORKFLOW.relative_to(package.ROOT)}@refs/tags/v0.1.0"
    assert f"--certificate-identity {identity}\n" in page, "the page verifies another workflow's signature"
    check = "sha256sum --check --ignore-missing SHA256SUMS"
    assert f"\n{check}\n" in page, "the page checks the sums with another command"
    # As a user does who downloaded two of the files.
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / package.SUMS).write_bytes((assets / package.SUMS).read_bytes())
        for path in sorted(assets.glob("*.tar.gz"))[:2]:
            (folder / path.name).write_bytes(path.read_bytes())
        assert subprocess.run(check.split(), cwd=folder, capture_output=True).returncode == 0, "right files are refused"
        (folder / path.name).write_bytes(b"changed")
        assert subprocess.run(check.split(), cwd=folder, capture_output=True).returncode != 0, "a changed file is accepted"
