"""Checks the clients that `generate.py` packed, alone and against a local stack.

    infra/clients/check.py STACK PACKED REDIAL

STACK is the file that `redial local up --json` wrote, PACKED the output of `generate.py`, REDIAL the command with its options that
choose that stack. It fails if

- the document that clients are generated from is not the one that `redial openapi` prints,
- an operation of the document has no method in one of the clients,
- a package holds other files than it should,
- a client, type-checked and run against the stack, does not send, read, store and report problems as its smoke test expects,
- or an example of infra/docs/http-api.md, run as it stands there, does not print the state of its message.
"""

import json
import pathlib
import shlex
import shutil
import sys
import tarfile
import urllib.request
import zipfile

import document
from generate import NPM, run

SMOKE = pathlib.Path(__file__).resolve().parent / "smoke"
TSCONFIG = {
    "compilerOptions": {
        "target": "ES2022",
        "lib": ["ES2022", "DOM"],
        "module": "NodeNext",
        "moduleResolution": "NodeNext",
        "strict": True,
        "exactOptionalPropertyTypes": True,
        "types": ["node"],
        "outDir": "out",
    },
    "files": ["typescript.ts", "browser.ts", "example.ts"],
}
STATES = ["queued", "sending", "failed"]


def example(language):
    """The code of the page's block that is marked to be run. Its subscription is unknown, so that nothing is sent to a push service."""
    page = (document.INFRA / "docs/http-api.md").read_text()
    return page.split(f"<!-- run: {language} client -->\n```")[1].split("\n", 1)[1].split("```")[0]


def check_example(language, *command, **environment):
    printed = run(*command, **environment).strip()
    assert printed in STATES, f"the example for {language} printed {printed}, expected one of {STATES}"


def files_of_tarball(path):
    with tarfile.open(path) as archive:
        return sorted(name.removeprefix("package/") for name in archive.getnames())


def check_contents(packed):
    client, browser = packed.glob("redial-client-*.tgz"), packed.glob("redial-browser-*.tgz")
    compiled = [f"dist/{name}" for name in ["index.d.ts", "index.js", "schema.d.ts", "schema.js"]]
    found = files_of_tarball(next(client))
    assert found == sorted(["LICENSE", "README.md", "package.json", *compiled]), f"redial-client holds {found}"
    found = files_of_tarball(next(browser))
    expected = ["LICENSE", "README.md", "package.json", "redial-sw.js", "redial.d.ts", "redial.js"]
    assert found == expected, f"redial-browser holds {found}"
    wheel = zipfile.ZipFile(next(packed.glob("*.whl"))).namelist()
    assert "redial_client/py.typed" in wheel and any(name.endswith("/licenses/LICENSE") for name in wheel), wheel
    strangers = [name for name in wheel if not name.startswith("redial_client")]
    assert not strangers, f"the wheel holds {strangers}"


def check_operations(packed):
    """A generator may leave out what it cannot express."""
    schema = (packed / "typescript/src/schema.ts").read_text()
    count = 0
    for operation, body in document.every_operation(document.published()):
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation)
        module = packed / f"python/redial_client/api/{body['tags'][0]}/{snake}.py"
        assert module.exists(), f"the Python client has no {operation}"
        assert f'operations["{operation}"]' in schema, f"the TypeScript client has no {operation}"
        count += 1
    return count


def install(packed, folder):
    """Where node finds the packages, and below the folder of openapi-fetch and the types of node."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ["redial-client", "redial-browser"]:
        target = folder / "node_modules" / name
        target.mkdir(parents=True)
        archive = next(packed.glob(f"{name}-*.tgz"))
        run("tar", "-xzf", archive, "-C", target, "--strip-components", "1")
    (folder / "node_modules/openapi-fetch").symlink_to(NPM / "openapi-fetch")
    (folder / "node_modules/@types").symlink_to(NPM / "@types")
    for name in ["typescript.ts", "browser.ts"]:
        shutil.copy(SMOKE / name, folder)
    (folder / "example.ts").write_text(example("TypeScript"))
    (folder / "example.py").write_text(example("Python"))
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps(TSCONFIG))
    run(NPM / ".bin/tsc", "--project", folder)


def main():
    stack = json.loads(pathlib.Path(sys.argv[1]).read_text().splitlines()[-1])
    packed, (redial, *which) = pathlib.Path(sys.argv[2]).resolve(), shlex.split(sys.argv[3])
    assert json.loads(run(redial, "openapi")) == document.published(), "infra/clients/document.py differs from `redial openapi`"
    check_contents(packed)
    count = check_operations(packed)
    folder = packed / "smoke"
    install(packed, folder)
    url = stack["api_url"]
    key = run(redial, "api-keys", "create", *which, "--tenant", "smoke", "--scope", "send,subscribe,read").strip()

    access = {"API": url, "KEY": key}
    run("node", folder / "out/typescript.js", url, key)
    check_example("TypeScript", "node", folder / "out/example.js", **access)
    print(f"TypeScript: {count} operations; the packed client sends, reads, stores and reports problems")

    site = folder / "site"
    wheel = next(packed.glob("*.whl"))
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    run(sys.executable, "-W", "error", "-m", "compileall", "-q", "-f", site / "redial_client")
    run(sys.executable, SMOKE / "python.py", url, key, PYTHONPATH=str(site))
    # The same message as before, with another client: a duplicate.
    check_example("Python", sys.executable, folder / "example.py", PYTHONPATH=str(site), **access)
    print(f"Python: {count} operations; the packed client sends, reads, stores and reports problems")

    body = json.dumps({"subscription": "browser", "tags": ["smoke"]}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/subscription-tokens", body, headers)) as answer:
        token = json.load(answer)["token"]
    with urllib.request.urlopen(f"{url}/v1/keys") as answer:
        vapid = json.load(answer)["keys"][0]
    run("node", folder / "out/browser.js", url, token, vapid["public_key"], vapid["id"])
    print("browser: the packed module subscribes, renews and unsubscribes; its types are those of its exports")


if __name__ == "__main__":
    main()
