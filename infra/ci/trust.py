#!/usr/bin/env python3
"""Writes infra/docs/trust.md: which tests prove each guarantee, and on which parts they passed.

    python3 infra/ci/trust.py LOGS [REPORT…] [--check]

infra/ci/guarantees.json names the guarantees, their tests ("SUITE MODULE::TEST", or "verify ROAD"), and the planted defects that the
simulation has to find. LOGS is the folder with the logs of `.ci/run tests dynamodb localstack localstack-e2e mutants`; a REPORT is a file that `redial
verify --roads --report` wrote about a stack on AWS. With --check nothing is written: the exit status is 1 if the page says anything else than
these logs, of the parts that they are about. A test that failed, or a planted defect that was not found, is an error in either case.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "infra/docs/trust.md"
GUARANTEES = ROOT / "infra/ci/guarantees.json"
PLANTED = ROOT / "shared/simulation/src/mutants"

ROADS = ROOT / "cli/src/verify/roads/road.rs"

MEMORY, EMULATOR, DYNAMODB, LOCALSTACK, AWS = "in memory", "embedded emulator", "DynamoDB Local", "LocalStack", "AWS"
PARTS = [MEMORY, EMULATOR, DYNAMODB, LOCALSTACK, AWS]
# A run on these may be of a few tests: what the page has of them stays.
SELECTED = {LOCALSTACK, AWS}
# The suites that have stand-ins for everything that is remote.
IN_MEMORY = {"pass", "api"}
# The logs of .ci/run, and the part on which a test ran that they name.
LOGS = {
    "run_tests.log": lambda suite: MEMORY if suite in IN_MEMORY else EMULATOR,
    "run_on_dynamodb_local.log": lambda suite: DYNAMODB,
    "run_on_localstack.log": lambda suite: LOCALSTACK,
    "run_tests_on_localstack.log": lambda suite: LOCALSTACK,
}
# Has a message take each road of `verify`, but the one that waits for a quarter of an hour.
ROADS_TEST, LONG_ROAD = "cli verify::every_road_ends_as_it_has_to_and_the_receiver_is_removed", "long-wait"

RUNNING = re.compile(r"^ +Running (?:unittests )?(\S+) \(")
RESULT = re.compile(r"^test (\S+) \.\.\. .*?\b(ok|FAILED|ignored)$")
# Of `cargo sim mutants`: after how many seeds and seconds, and which.
FOUND = re.compile(r"^ +\d+ +\d+\.\d  (\S.*)$", re.MULTILINE)
INTRODUCTION = """\
# What is proved, and on what

Each guarantee, how many of its tests passed on which parts, and how many planted defects against it the
[simulation](simulation.md) has to find. This page is written by `infra/ci/trust.py` from the output of tests, and `.ci/run trust` fails
if it says anything else than they do.

- **in memory**: the passes that the functions run, on stand-ins for everything remote, with deaths at every effect, and the routes of the
  HTTP API on the same stand-ins.
- **embedded emulator**: the functions themselves, deployed from the template to the emulator of `cargo demo`.
- **DynamoDB Local**: the same functions and emulator, with the tables in [Amazon's own DynamoDB Local](localstack.md#tests-on-dynamodb-local).
- **LocalStack**: the same functions as processes of one machine, and everything else [LocalStack's](localstack.md).
- **AWS**: a deployed stack, by `redial verify --roads --report FILE` ([the first deployment](first-deployment.md#verify)), read in by
  `python3 infra/ci/trust.py target/ci/log FILE`.
"""
NOT_ON_AWS = "\nNo report of a stack on AWS has been read in yet, so that its column is empty.\n"


class Wrong(Exception):
    """What the page or the list of guarantees says, and the tests do not."""


def suite_of(source):
    """`e2e` of e2e/main.rs, `lib` of src/lib.rs."""
    path = pathlib.PurePath(source)
    return path.parent.name if path.name == "main.rs" and path.parent.name != "src" else path.stem


def ended(log):
    """How tests ended, by "SUITE MODULE::TEST"."""
    suite, tests = "", {}
    for line in log.read_text(errors="replace").splitlines():
        if running := RUNNING.match(line):
            suite = suite_of(running[1])
        elif result := RESULT.match(line):
            tests[f"{suite} {result[1]}"] = result[2]
    return tests


def roads():
    """The names of the roads, as tests of the suite `verify`."""
    names = re.findall(r'\b(?:road|scheduled)\(\s*"([a-z-]+)"', ROADS.read_text())
    return {f"verify {name}" for name in names}


def reported(path):
    """The roads on which a message ended as it had to."""
    report = json.loads(path.read_text())
    if report.get("on") != "aws":
        raise Wrong(f'{path}: it is about a stack on "{report.get("on")}", and not on AWS')
    return {f'verify {it["road"]}' for it in report["roads"] if it["ok"]}


def seen(logs, reports):
    """Of each part that the logs and reports are about: the tests that passed on it."""
    parts = {AWS: set().union(*map(reported, reports))} if reports else {}
    for name, part_of in LOGS.items():
        log = logs / name
        for test, end in (ended(log) if log.exists() else {}).items():
            if end == "FAILED":
                raise Wrong(f'{log}: "{test}" failed')
            if end == "ok":
                parts.setdefault(part_of(test.split()[0]), set()).add(test)
    for tests in parts.values():
        if ROADS_TEST in tests:
            tests |= roads() - {f"verify {LONG_ROAD}"}
    return parts


def planted():
    names = re.compile(r'name: "([^"]+)"')
    return {name for file in PLANTED.glob("*.rs") for name in names.findall(file.read_text())}


def found(log):
    """The planted defects that the simulation found; None if it did not search."""
    return set(FOUND.findall(log.read_text(errors="replace"))) if log.exists() else None


def check_names(guarantees, parts, caught):
    known, walked = planted(), roads()
    for it in guarantees:
        for name in it["planted"]:
            if name not in known:
                raise Wrong(f'{it["guarantee"]}: no planted defect is called "{name}"')
            if caught is not None and name not in caught:
                raise Wrong(f'{it["guarantee"]}: the simulation did not find the planted defect "{name}"')
        for test in it["tests"]:
            if test.startswith("verify "):
                if test not in walked:
                    raise Wrong(f'{it["guarantee"]}: `redial verify` has no road "{test.split()[1]}"')
            elif MEMORY in parts and EMULATOR in parts and not any(test in tests for tests in parts.values()):
                raise Wrong(f'{it["guarantee"]}: "{test}" did not pass, or there is none')
        if not (ROOT / "infra/docs" / it["page"]).exists():
            raise Wrong(f'{it["guarantee"]}: there is no page {it["page"]}')


def page(guarantees, parts):
    def count(it, part):
        return str(sum(test in parts[part] for test in it["tests"]) or "")

    introduction = INTRODUCTION if parts[AWS] else INTRODUCTION + NOT_ON_AWS
    lines = [introduction, f'| guarantee | {" | ".join(PARTS)} | planted defects |', "|---|" + "---:|" * (len(PARTS) + 1)]
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
    if not arguments:
        sys.exit(__doc__)
    guarantees = json.loads(GUARANTEES.read_text())
    logs, *reports = map(pathlib.Path, arguments)
    now = seen(logs, reports)
    if not now:
        raise Wrong("these logs have no test that passed")
    check_names(guarantees, now, found(logs / "run_mutants.log"))
    # What did not run this time is as it was.
    before = recorded()
    for part in SELECTED & set(now):
        now[part] |= before[part]
    text = page(guarantees, before | now)
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        raise Wrong("infra/docs/trust.md differs from what passed: .ci/run tests dynamodb localstack localstack-e2e && python3 infra/ci/trust.py target/ci/log")
    print(f'{len(guarantees)} guarantees, {sum(len(it["tests"]) for it in guarantees)} tests; these logs are about: {", ".join(now)}')


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(str(wrong))
