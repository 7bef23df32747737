#!/usr/bin/env python3
"""Writes infra/docs/trust.md: which tests prove each guarantee, and on which parts they passed.

    python3 infra/ci/trust.py LOGS [--check]

infra/ci/guarantees.json names the guarantees, their tests ("SUITE MODULE::TEST"), and the planted defects that the simulation has to
find. LOGS is the folder with the logs of `.ci/run tests dynamodb`. With --check nothing is written: the exit status is 1 if the page
says anything else than these logs, of the parts that they are about. A test that did not pass is an error in either case.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "infra/docs/trust.md"
GUARANTEES = ROOT / "infra/ci/guarantees.json"
PLANTED = ROOT / "shared/simulation/src/mutants"

MEMORY, EMULATOR, DYNAMODB = "in memory", "embedded emulator", "DynamoDB Local"
PARTS = [MEMORY, EMULATOR, DYNAMODB]
# The logs of .ci/run, and the part on which a test ran that they name. The suite `pass` has stand-ins for everything that is remote.
LOGS = {
    "run_tests.log": lambda suite: MEMORY if suite == "pass" else EMULATOR,
    "run_on_dynamodb_local.log": lambda suite: DYNAMODB,
}

RUNNING = re.compile(r"^ +Running (?:unittests )?(\S+) \(")
RESULT = re.compile(r"^test (\S+) \.\.\. .*?\b(ok|FAILED|ignored)$")
INTRODUCTION = """\
# What is proved, and on what

Each guarantee, how many of its tests passed on which parts, and how many planted defects against it the
[simulation](simulation.md) has to find. This page is written by `infra/ci/trust.py` from the output of tests, and `.ci/run trust` fails
if it says anything else than they do.

- **in memory**: the passes that the functions run, on stand-ins for everything remote, with deaths at every effect.
- **embedded emulator**: the functions themselves, deployed from the template to the emulator of `cargo demo`.
- **DynamoDB Local**: the same functions and emulator, with the tables in [Amazon's own DynamoDB Local](localstack.md#tests-on-dynamodb-local).

None of these is AWS.
"""


class Wrong(Exception):
    """What the page or the list of guarantees says, and the tests do not."""


def suite_of(source):
    """`e2e` of e2e/main.rs, `lib` of src/lib.rs."""
    path = pathlib.PurePath(source)
    return path.parent.name if path.name == "main.rs" and path.parent.name != "src" else path.stem


def passed(log):
    """The tests that passed, as "SUITE MODULE::TEST"."""
    suite, tests = "", set()
    for line in log.read_text(errors="replace").splitlines():
        if running := RUNNING.match(line):
            suite = suite_of(running[1])
        elif (result := RESULT.match(line)) and result[2] == "ok":
            tests.add(f"{suite} {result[1]}")
    return tests


def seen(logs):
    """Of each part that the logs are about: the tests that passed on it."""
    parts = {}
    for name, part_of in LOGS.items():
        log = logs / name
        tests = passed(log) if log.exists() else set()
        for test in tests:
            parts.setdefault(part_of(test.split()[0]), set()).add(test)
    return parts


def planted():
    names = re.compile(r'name: "([^"]+)"')
    return {name for file in PLANTED.glob("*.rs") for name in names.findall(file.read_text())}


def check_names(guarantees, parts):
    known = planted()
    for it in guarantees:
        for name in it["planted"]:
            if name not in known:
                raise Wrong(f'{it["guarantee"]}: no planted defect is called "{name}"')
        for test in it["tests"]:
            if MEMORY in parts and EMULATOR in parts and not any(test in tests for tests in parts.values()):
                raise Wrong(f'{it["guarantee"]}: "{test}" did not pass, or there is none')
        if not (ROOT / "infra/docs" / it["page"]).exists():
            raise Wrong(f'{it["guarantee"]}: there is no page {it["page"]}')


def page(guarantees, parts):
    def count(it, part):
        return str(sum(test in parts[part] for test in it["tests"]) or "")

    lines = [INTRODUCTION, f'| guarantee | {" | ".join(PARTS)} | planted defects |', "|---|" + "---:|" * (len(PARTS) + 1)]
    for it in guarantees:
        cells = [count(it, part) for part in PARTS] + [str(len(it["planted"]) or "")]
        lines.append(f'| [{it["guarantee"]}]({it["page"]}) | {" | ".join(cells)} |')
    lines.append("\n## The tests\n")
    lines.append("| test | passed on |\n|---|---|")
    for it in guarantees:
        lines.append(f'| **{it["guarantee"]}** | |')
        for test in it["tests"]:
            suite, name = test.split()
            on = ", ".join(part for part in PARTS if test in parts[part])
            lines.append(f"| `{suite}` `{name}` | {on} |")
        lines += [f"| planted: {name} | simulation |" for name in it["planted"]]
    return "\n".join(lines) + "\n"


def recorded():
    """Of each part: the tests that the page says passed on it."""
    parts = {part: set() for part in PARTS}
    row = re.compile(r"^\| `(\S+)` `(\S+)` \| (.*) \|$", re.MULTILINE)
    for suite, name, on in row.findall(PAGE.read_text()) if PAGE.exists() else []:
        for part in filter(None, on.split(", ")):
            parts[part].add(f"{suite} {name}")
    return parts


def main():
    arguments = [it for it in sys.argv[1:] if it != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    guarantees = json.loads(GUARANTEES.read_text())
    now = seen(pathlib.Path(arguments[0]))
    if not now:
        raise Wrong("these logs have no test that passed")
    check_names(guarantees, now)
    # What did not run this time is as it was.
    text = page(guarantees, recorded() | now)
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        raise Wrong("infra/docs/trust.md differs from what passed: .ci/run tests dynamodb && python3 infra/ci/trust.py target/ci/log")
    print(f'{len(guarantees)} guarantees, {sum(len(it["tests"]) for it in guarantees)} tests; these logs are about: {", ".join(now)}')


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(str(wrong))
