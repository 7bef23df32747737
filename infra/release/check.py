"""Checks what a release would have, as far as it can be checked without building it and without an account.

    check.py VERSION OUTPUT

The functions' executables are stand-ins: a header that says what they are built for. `.ci/run packages` packs those that were built,
and starts them. What this shows:

- A bundle has the files that it should, the same bytes each time, for both architectures, and refuses executables of another one.
- The templates of a release make the same resources as infra/template.yaml, but for where the code is.
- The Terraform module and the CDK construct have the template's parameters and outputs, and are valid.
- The app of infra/cdk/README.md is synthesized by the command that stands there.
- The checksums name every file, and find one that was changed.
- The workflow calls infra/release/run as it is to be called, and makes, attests and signs what published.py looks at.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import declared
import hcl2
import package
import published
import template
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

NPM = pathlib.Path(os.environ.get("REDIAL_NPM", package.ROOT / "target/ci/npm/node_modules"))
BUNDLE = ["LICENSE", "SHA256SUMS", "samconfig.toml", "stack.yaml", "template.yaml", "wait.asl.json"]


class Policies:
    """No managed policies by name: the template has none."""

    def load(self):
        return {}


def run(*command, cwd=None, **environment):
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def stand_ins(folder, architecture):
    for function in template.FUNCTIONS:
        executable = bytearray(4096)
        executable[:6] = b"\x7fELF\x02\x01"
        executable[18:20] = package.MACHINES[architecture].to_bytes(2, "little")
        executable[64:] = function.encode().ljust(len(executable) - 64)
        (folder / function).mkdir(parents=True, exist_ok=True)
        (folder / function / "bootstrap").write_bytes(executable)
    return folder


def unpacked(archive, folder):
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def check_bundle(architecture, version, output):
    built = stand_ins(output / f"built-{architecture}", architecture)
    archive = package.bundle(built, architecture, version, output)
    content = archive.read_bytes()
    assert package.bundle(built, architecture, version, output).read_bytes() == content, f"{archive.name} has other bytes the second time"
    folder = unpacked(archive, output / "unpacked")
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert found == sorted([*BUNDLE, *(f"functions/{function}.zip" for function in template.FUNCTIONS)]), f"{archive.name} has {found}"
    run("sha256sum", "--check", "--strict", package.SUMS, cwd=folder)
    for function in template.FUNCTIONS:
        with zipfile.ZipFile(folder / f"functions/{function}.zip") as packed:
            assert packed.namelist() == ["bootstrap"], packed.namelist()
            assert packed.getinfo("bootstrap").external_attr >> 16 == 0o100755, "bootstrap cannot be executed"
            assert packed.read("bootstrap") == (built / function / "bootstrap").read_bytes(), f"{function} is another"
    # Those for the other architecture differ in one word.
    for name in ["template.yaml", "stack.yaml"] if architecture == "arm64" else []:
        run("sam", "validate", "--lint", "--template-file", folder / name)
    other = next(name for name in template.ARCHITECTURES if name != architecture)
    try:
        package.bundle(built, other, version, output / "refused")
    except SystemExit as refusal:
        assert f"built for {architecture}, expected {other}" in str(refusal), refusal
    else:
        raise AssertionError(f"executables for {architecture} were packed for {other}")
    return folder


def resources(text, architecture, code):
    """What the Serverless transform makes of a template, without where the code is, which `code` looks at."""
    document = yaml_parse(text)
    assert document["Globals"]["Function"]["Architectures"] == [architecture]
    document["Globals"]["Function"]["Architectures"] = ["any"]
    for name, resource in document["Resources"].items():
        resource.pop("Metadata", None) if resource["Type"] == "AWS::Serverless::Function" else None
        if resource["Type"] in ("AWS::Serverless::Function", "AWS::Serverless::StateMachine"):
            place = "CodeUri" if resource["Type"] == "AWS::Serverless::Function" else "DefinitionUri"
            code(name, resource["Properties"][place])
            resource["Properties"][place] = {"Bucket": "any", "Key": "any"}
    for name in [template.BUCKET, *template.KEYS.values()]:
        document["Parameters"].pop(name, None)
    # The transform names some resources after a hash of their properties, which are the same then.
    return transform(document, {}, Policies())


def check_templates(bundles):
    places = {}
    expected = resources(template.source(), "x86_64", places.__setitem__)
    assert len(places) == 4, places
    for architecture, folder in bundles.items():
        places = {}
        assert resources((folder / "template.yaml").read_text(), architecture, places.__setitem__) == expected, "template.yaml differs"
        assert all((folder / place).is_file() for place in places.values()), f"template.yaml names files that are not there: {places}"
        places = {}
        assert resources((folder / "stack.yaml").read_text(), architecture, places.__setitem__) == expected, "stack.yaml differs"
        keys = sorted(place["Key"]["Ref"] for place in places.values())
        assert keys == sorted(template.KEYS.values()), keys
    # The transform takes places that are parameters.
    made = transform(yaml_parse((bundles["arm64"] / "stack.yaml").read_text()), {}, Policies())["Resources"]
    code = made["DispatchFunction"]["Properties"]["Code"]
    assert code == {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "DispatchCodeKey"}}, code
    return len(expected["Resources"])


def names(blocks):
    return sorted(name.strip('"') for block in blocks for name in block)


def has_provider(folder):
    """Whether Terraform could install the provider; any other failure is one of the module."""
    init = ["terraform", "init", "-backend=false", "-input=false", "-no-color"]
    try:
        done = subprocess.run(init, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return False
    assert done.returncode == 0 or "provider hashicorp/aws" in " ".join(done.stderr.split()).replace("│ ", ""), done.stderr
    return done.returncode == 0


def check_module(version, output):
    folder = unpacked(package.module(version, output), output / "unpacked")
    parameters, outputs = declared.read()
    parsed = {path.name: hcl2.loads(path.read_text()) for path in folder.glob("*.tf")}
    assert names(parsed["parameters.tf"]["variable"]) == sorted(map(declared.snake, parameters)), "the variables are others"
    assert names(parsed["outputs.tf"]["output"]) == sorted(map(declared.snake, outputs)), "the outputs are others"
    if not shutil.which("terraform"):
        return "parsed; not validated, because there is no terraform"
    run("terraform", "fmt", "-check", "-diff", "-recursive", folder)
    # The variables and what they accept need no provider.
    alone = output / "variables"
    (alone / "tests").mkdir(parents=True)
    shutil.copy(folder / "parameters.tf", alone)
    shutil.copy(folder / "tests/parameters.tftest.hcl", alone / "tests")
    (alone / "main.tf").write_text('output "parameters" {\n  value = local.parameters\n}\n')
    run("terraform", "init", "-input=false", "-no-color", cwd=alone)
    run("terraform", "validate", "-no-color", cwd=alone)
    tested = run("terraform", "test", "-no-color", cwd=alone)
    count = re.search(r"(\d+) passed, 0 failed", tested)[1]
    if not has_provider(folder):
        why = "because the AWS provider could not be installed"
        return f"{count} tests of its variables; its resources were parsed and not validated, {why}"
    run("terraform", "validate", "-no-color", cwd=folder)
    return f"{count} tests of its variables; it is valid"


def check_construct(version, output, bundle):
    package.cdk(version, output)
    folder = output / "cdk"
    installed = folder / "node_modules/redial-cdk"
    installed.mkdir(parents=True)
    run("tar", "-xzf", output / f"redial-cdk-{version}.tgz", "-C", installed, "--strip-components", "1")
    found = sorted(path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file())
    compiled = [f"lib/{name}" for name in ["index.d.ts", "index.js", "template.d.ts", "template.js"]]
    assert found == sorted(["LICENSE", "README.md", "package.json", *compiled]), f"redial-cdk has {found}"
    for name in ["aws-cdk-lib", "constructs", "@types"]:
        (folder / "node_modules" / name).symlink_to(NPM / name)
    options = json.loads((template.INFRA / "cdk/tsconfig.json").read_text())["compilerOptions"]
    options = {**options, "rootDir": ".", "outDir": "out", "declaration": False}
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["test.ts"]}))
    shutil.copy(template.INFRA / "cdk/test.ts", folder)
    run(NPM / ".bin/tsc", "--project", folder)
    tested = run("node", "--test", folder / "out/test.js", RELEASE=str(bundle.resolve()), FORCE_COLOR="0")
    return re.search(r"^. pass (\d+)$", tested, re.MULTILINE)[1]


def check_app(output, bundle):
    """The app of infra/cdk/README.md, compiled and synthesized as it stands there, with the CDK's own command."""
    page = (template.INFRA / "cdk/README.md").read_text()
    [app] = re.findall(r"^```ts\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [command] = re.findall(r"^(npx cdk synth\b.*?)(?: +#.*)?$", page, re.MULTILINE)
    folder, modules = output / "cdk", output / "cdk/node_modules"
    release = re.search(r'release: "\./(.+)"', app)[1]
    (folder / release).symlink_to(bundle.resolve())
    (folder / "app.ts").write_text(app)
    options = json.loads((folder / "tsconfig.json").read_text())["compilerOptions"]
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": {**options, "outDir": "."}, "files": ["app.ts"]}))
    run(NPM / ".bin/tsc", "--project", folder)
    (modules / "aws-cdk").symlink_to(NPM / "aws-cdk")
    (modules / ".bin").mkdir()
    (modules / ".bin/cdk").symlink_to("../aws-cdk/bin/cdk")
    # Neither asks the network for news nor says that it was run.
    (folder / "cdk.json").write_text(json.dumps({"notices": False, "versionReporting": False}))
    run(*command.replace('"', "").split(" --app ")[0].split(), "--app", re.search('--app "(.*?)"', command)[1], cwd=folder, CDK_DISABLE_CLI_TELEMETRY="true")
    synthesized = json.loads((folder / "cdk.out/Notifications.template.json").read_text())
    [stack] = [it for it in synthesized["Resources"].values() if it["Type"] == "AWS::CloudFormation::Stack"]
    assert stack["Properties"]["Parameters"]["VapidSubject"] == "mailto:push@shop.example", stack
    assert any(it["Value"].get("Fn::GetAtt", ["", ""])[1] == "Outputs.IngestQueueUrl" for it in synthesized["Outputs"].values()), synthesized
    assets = json.loads((folder / "cdk.out/Notifications.assets.json").read_text())["files"]
    # The four files, the released template, and the template around it.
    assert len(assets) == 6, assets
    return command


def check_sums(version, output):
    """All that would be uploaded."""
    assets = output / "assets"
    assets.mkdir()
    for path in [*output.glob("*.tar.gz"), *output.glob("*.tgz"), *output.glob("*.cdx.json")]:
        shutil.move(path, assets)
    package.sums(assets)
    listed = (assets / package.SUMS).read_text()
    assert len(listed.splitlines()) == len(list(assets.iterdir())) - 1, listed
    run("sha256sum", "--check", "--strict", package.SUMS, cwd=assets)
    published.check_names(version, assets)
    published.check_publication(version, assets)
    changed = next(assets.glob("*.tgz"))
    changed.write_bytes(changed.read_bytes() + b"\0")
    done = subprocess.run(["sha256sum", "--check", package.SUMS], cwd=assets, capture_output=True)
    assert done.returncode, "a changed file was not found"
    return len(listed.splitlines())


def check_workflow():
    """Each call has the number of arguments that the command's description has."""
    described = (template.INFRA / "release/run").read_text()
    lines = re.findall(r"^#   infra/release/run (\w+)((?: [A-Z]+)+) ", described, re.MULTILINE)
    usage = {part: arguments.split() for part, arguments in lines}
    workflow = (package.ROOT / ".github/workflows/release.yml").read_text()
    calls = re.findall(r"^ +(?:- run: |run: )?infra/release/run (\w+)((?: \S+)*?)(?: >\S+)?$", workflow, re.MULTILINE)
    called = {part: arguments.split() for part, arguments in calls}
    assert called.keys() == usage.keys(), f"the workflow calls {sorted(called)}, and infra/release/run has {sorted(usage)}"
    for part, arguments in called.items():
        assert len(arguments) == len(usage[part]), f"infra/release/run {part} takes {usage[part]}, and the workflow gives {arguments}"


def check_command(target, version, output):
    programs = package.empty(output / "programs")
    for name in published.COMMAND:
        (programs / name).write_text(f"#!/bin/sh\n# {name}\n")
    archive = package.command(programs, target, version, output)
    shutil.rmtree(programs)
    folder = unpacked(archive, output / "unpacked")
    expected = {"redial": "redial", **{f"functions/{function}": function for function in template.FUNCTIONS}}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {"LICENSE", *expected}, f"{archive.name} has {sorted(found)}"
    for path, name in expected.items():
        assert (folder / path).read_text().endswith(f"# {name}\n"), f"{path} is another program"
        assert (folder / path).stat().st_mode & 0o777 == 0o755, f"{path} cannot be executed"


def main():
    version, output = sys.argv[1], package.empty(pathlib.Path(sys.argv[2])).resolve()
    check_workflow()
    bundles = {architecture: check_bundle(architecture, version, output) for architecture in template.ARCHITECTURES}
    count = check_templates(bundles)
    print(f"bundles for {' and '.join(bundles)}; their templates make the {count} resources of infra/template.yaml")
    print(f"Terraform module: {check_module(version, output)}")
    print(f"CDK construct: {check_construct(version, output, bundles['arm64'])} tests on what it synthesizes")
    print(f"CDK app of its README: `{check_app(output, bundles['x86_64'])}`")
    for target in published.command_targets():
        check_command(target, version, output)
    count, crates = published.check_sboms(version, output)
    print(f"CycloneDX: {count} valid lists of what executables consist of, of {crates} crates at most, all of Cargo.lock")
    print(f"checksums: {check_sums(version, output)} files, and a changed one is found")


if __name__ == "__main__":
    main()
