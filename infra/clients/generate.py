"""Generates and packs the clients of the HTTP API, and packs the browser's module.

    infra/clients/generate.py VERSION OUTPUT

writes `redial-client-VERSION.tgz` (TypeScript), `redial_client-VERSION-py3-none-any.whl` (Python) and `redial-browser-VERSION.tgz`
(infra/web) to OUTPUT, and their sources to folders beside them. Nothing that is generated is kept in the repository, so that it cannot
differ from the document. openapi-python-client and setuptools are those of the Python that runs this; `REDIAL_NPM` names the folder
`node_modules` with openapi-typescript and typescript, target/ci/npm/node_modules without it. Neither asks the network.
"""

import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import document

HERE = pathlib.Path(__file__).resolve().parent
WEB = HERE.parent / "web"
NPM = pathlib.Path(os.environ.get("REDIAL_NPM", HERE.parents[1] / "target/ci/npm/node_modules"))


def run(*command, cwd=None, **environment):
    """Fails with the command's output."""
    environment = {**os.environ, **environment}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def npm_pack(folder, version, output):
    """The tarball of a folder; its package.json gets the version."""
    manifest = folder / "package.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": version}, indent=2) + "\n")
    listing = run("npm", "pack", "--json", "--ignore-scripts", "--pack-destination", output, cwd=folder)
    packed = json.loads(listing)
    # An array up to npm 11, an object by the package's name from then on.
    return (packed[0] if isinstance(packed, list) else next(iter(packed.values())))["files"]


def typescript(version, output):
    folder = output / "typescript"
    shutil.copytree(HERE / "typescript", folder)
    described = output / "openapi.json"
    described.write_text(json.dumps(document.for_generators(), indent=1))
    # A module and not a declaration, so that the compiler puts it beside the rest.
    run(NPM / ".bin/openapi-typescript", described, "--output", folder / "src/schema.ts")
    (folder / "node_modules").symlink_to(NPM)
    run(NPM / ".bin/tsc", "--project", folder)
    (folder / "node_modules").unlink()
    shutil.copy(HERE.parents[1] / "LICENSE", folder)
    npm_pack(folder, version, output)


def only_problems(module):
    """AWS answers some requests in the API's place: with other JSON, with text, or with nothing. Such an answer is an unexpected status, and
    the generated code would fail as it reads a `Problem` from it."""
    text = module.read_text()
    reads = r"(if response\.status_code == (\d+)):(\s+response_\2 = Problem\.from_dict\()"
    changed, count = re.subn(reads, r'\1 and "problem+json" in response.headers.get("content-type", ""):\3', text)
    assert count == text.count("Problem.from_dict("), f"{module} reads problems in another way"
    module.write_text(changed)


def python(version, output):
    folder = output / "python"
    shutil.copytree(HERE / "python", folder)
    described = output / "openapi-open.json"
    described.write_text(json.dumps(document.for_generators(open_values=True), indent=1))
    generator = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
    printed = run(*generator, "--config", folder / "config.yml", "--path", described, "--output-path", folder / "redial_client")
    # It leaves out what it cannot express, with a warning.
    assert "WARNING" not in printed.upper(), printed
    for module in (folder / "redial_client/api").glob("*/*.py"):
        only_problems(module)
    (folder / "redial_client/py.typed").touch()
    project = folder / "pyproject.toml"
    text = re.sub(r"# \.\./generate\.py.*\n(version = )\".*\"", rf'\g<1>"{version}"', project.read_text())
    assert f'version = "{version}"' in text, "pyproject.toml has no line for the version"
    project.write_text(text)
    shutil.copy(HERE.parents[1] / "LICENSE", folder)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    run(*pip, "--wheel-dir", output, folder, SOURCE_DATE_EPOCH="1577836800")


def browser(version, output):
    folder = output / "browser"
    folder.mkdir()
    manifest = json.loads((WEB / "package.json").read_text())
    for name in ["package.json", *manifest["files"]]:
        shutil.copy(WEB / name, folder)
    shutil.copy(HERE.parents[1] / "LICENSE", folder)
    npm_pack(folder, version, output)


def main():
    version, output = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    importlib.import_module("openapi_python_client")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    typescript(version, output)
    python(version, output)
    browser(version, output)
    for packed in sorted(output.glob("*.tgz")) + sorted(output.glob("*.whl")):
        print(packed)


if __name__ == "__main__":
    main()
