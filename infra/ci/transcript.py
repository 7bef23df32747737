#!/usr/bin/env python3
"""Writes infra/docs/transcript.md: what a terminal of 80 columns shows of the README's commands of the first ten minutes.

    python3 infra/ci/transcript.py [--check] [--raw FILE]

Runs the commands of the README's sections "Try it" (without the tests) and "Your first message" in a fresh clone of this checkout's last
commit, each in a pseudo-terminal of 24 lines and 80 columns, as they stand there. Redial itself is compiled in the clone and the emulator is
installed there; of the dependencies, the clone takes what this checkout has compiled, so that it takes two minutes and not ten. What differs
from run to run (times, durations, ports, keys, counts of requests) is replaced by `…`. A line that is wider than the terminal, a command that
fails, and anything left behind is an error. With --check nothing is written: the exit status is 1 if the page shows anything else. --raw
keeps what was shown, unchanged.
"""

import argparse
import contextlib
import difflib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "infra/docs/transcript.md"
# Of the clone; in a checkout's target folder, because it is large.
TARGET = ROOT / "target/ci/clone"
SECTIONS = ["Try it", "Your first message"]
LINES, COLUMNS = 24, 80
# The first build takes minutes.
LONGEST = 1800
# A receiver that listens says so, and goes on.
LISTENS = "arrive here"
# The message of the README, when it has arrived; and what is said of it until its end is recorded.
ARRIVED, UNDER_WAY = "201 hello", ": sending"
INTRODUCTION = """\
# The first ten minutes

What the commands of the README show in a fresh clone, in a terminal of 80 columns. `infra/ci/transcript.py` writes this page, and `.ci/run
transcript` runs the commands again, in another clone, and compares: `…` stands for what differs from run to run. What cargo says of its build,
and pip of its downloads, is left out.
"""
# Escape sequences (of control, of the window's title and of links), line feeds and returns, and text.
PARTS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[\r\n]|[^\x1b\r\n]+")
CARGO = re.compile(r"^ +(Compiling|Finished|Running|Building|Blocking|Downloaded|Downloading|Updating|Locking|Fresh|Dirty|Adding)\b")
# Of pip, and broken where the terminal ends: how many and which depends on the network.
PIP = re.compile(r"^  (?:downloading\s+\S+\s+\(\S+\s+MB\)|unpacking|still installing, after \d+ s)\n", re.MULTILINE)
VARIES = [
    re.compile(pattern)
    for pattern in (
        r"\d{4}-\d\d-\d\dT[\d:.]+Z?",
        r"\b\d\d:\d\d:\d\d\b",
        r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
        r"(?<=-)[0-9A-F]{13}\b",
        r"(?<=lambda-url/)\w+",
        r"(?<=process )\d+",
        r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+",
        r"\b(?=[\w-]*\d)(?=[\w-]*[a-zA-Z])[\w-]{40,}\b",
        r"\b[0-9a-f]{8,}\b",
        r"\b\d+(?:\.\d+)?(?= ?(?:ms|s|m|min|h|MB)\b)",
        r"(?<=endpoint )\w+",
        r"\b\d+(?= pushes and webhooks)|\b\d+(?= POSTs)",
        r"/\S*(?=/target/redial/venv)",
    )
]


class Wrong(Exception):
    """What a person would see that should not be."""


def commands():
    """The commands of the sections, with their comments."""
    readme = (ROOT / "README.md").read_text()
    for section in SECTIONS:
        text = readme.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
        for block in re.findall(r"```sh\n(.*?)```", text, re.S):
            for line in block.splitlines():
                command = line.split(" #")[0].strip()
                if command and "cargo test" not in command:
                    yield command, line


def git(*arguments, cwd=None):
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout


def share_dependencies(target):
    """Has a target folder begin with what cargo compiled of other packages than ours: hard links, and copies of what cargo may write to."""
    described = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    packages = json.loads(described)["packages"]
    ours = {name.replace("-", "_") for package in packages for name in [package["name"], *(of["name"] for of in package["targets"])]}

    def is_ours(name):
        name = re.sub(r"-[0-9a-f]{16}$", "", name.split(".", 1)[0]).replace("-", "_")
        return name in ours or name.removeprefix("lib") in ours

    for part, copy in (("deps", os.link), ("build", os.link), (".fingerprint", shutil.copy2)):
        there = ROOT / "target/debug" / part
        for entry in [] if not there.is_dir() else there.iterdir():
            if is_ours(entry.name):
                continue
            to = target / "debug" / part / entry.name
            to.parent.mkdir(parents=True, exist_ok=True)
            if entry.is_dir():
                shutil.copytree(entry, to, symlinks=True, copy_function=copy)
            else:
                copy(entry, to)


@contextlib.contextmanager
def cloned():
    """A clone of the last commit, and nothing of it afterwards."""
    left_out = len(git("status", "--porcelain", cwd=ROOT).splitlines())
    if left_out:
        print(f"the clone is of the last commit, without changes in {left_out} files that are not committed")
    shutil.rmtree(TARGET, ignore_errors=True)
    # A path of the same length each time: where a line is broken depends on it.
    with tempfile.TemporaryDirectory(prefix="redial-") as folder:
        clone = pathlib.Path(folder) / "redial"
        try:
            git("clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone))
            TARGET.mkdir(parents=True)
            share_dependencies(TARGET)
            (clone / "target").symlink_to(TARGET)
            yield clone
            left = git("status", "--porcelain", cwd=clone)
            if left:
                raise Wrong(f"left in the clone:\n{left}")
        finally:
            shutil.rmtree(TARGET, ignore_errors=True)


class Terminal:
    """A command in a pseudo-terminal of its own."""

    def __init__(self, command, folder, environment):
        self.command, self.raw, self.code = command, b"", None
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
            os.chdir(folder)
            os.execvpe("/bin/sh", ["sh", "-c", f"exec {command}"], environment)

    def read(self, until=None):
        """Reads to the end, or until something was shown."""
        deadline = time.monotonic() + LONGEST
        while until is None or until not in self.shown():
            if time.monotonic() > deadline:
                self.stop(signal.SIGKILL)
                raise Wrong(f"{self.command}: did not end in {LONGEST} s")
            if not select.select([self.terminal], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                data = b""
            if not data:
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
                return
            self.raw += data

    def type(self, keys):
        os.write(self.terminal, keys)

    def stop(self, how):
        if self.code is None:
            os.kill(self.process, how)

    def shown(self):
        return self.raw.decode(errors="replace")

    def lines(self):
        """What stays on the screen, without cargo's and pip's lines. One that was too long for it, and went on in the next line, is whole again."""
        screen, row, column = [["", False]], 0, 0

        def down_to(at):
            screen.extend(["", False] for _ in range(at + 1 - len(screen)))
            return at

        for part in PARTS.findall(self.shown()):
            move = re.fullmatch(r"\x1b\[(\d*)([ABGJK])", part)
            if part == "\n":
                row = down_to(row + 1)
            elif part == "\r":
                column = 0
            elif move and move[2] == "A":
                row = max(0, row - int(move[1] or 1))
            elif move and move[2] == "B":
                row = down_to(row + int(move[1] or 1))
            elif move and move[2] == "G":
                column = int(move[1] or 1) - 1
            elif move:
                screen[row] = ["", False] if move[1] == "2" else [screen[row][0][:column], screen[row][1]]
                if move[2] == "J":
                    del screen[row + 1 :]
            elif not part.startswith("\x1b"):
                for character in part:
                    if column == COLUMNS:
                        row, column = down_to(row + 1), 0
                        screen[row] = ["", True]
                    line = screen[row][0].ljust(column)
                    screen[row][0] = line[:column] + character + line[column + 1 :]
                    column += 1
        whole = []
        for text, goes_on in screen:
            if goes_on and whole:
                whole[-1] += text
            else:
                whole.append(text)
        lines = "".join(f"{line.rstrip()}\n" for line in whole if not CARGO.match(line))
        return PIP.sub("", lines).strip("\n").split("\n")


def normal(line):
    for pattern in VARIES:
        line = pattern.sub("…", line)
    return line


def without_columns(text):
    """For comparing: columns move with what they hold."""
    return re.sub(r"(?<=\S) {2,}", "  ", text)


def settled(command, folder, environment):
    """The same command once more, until nothing is under way."""
    for _ in range(100):
        terminal = Terminal(command, folder, environment)
        terminal.read()
        if UNDER_WAY not in terminal.shown():
            return terminal
    raise Wrong(f"{command}: still under way\n{terminal.shown()}")


def run(folder, began, raw):
    """What the commands show in a folder, by command."""
    blocks, listener = [], None
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "REDIAL_STATE_DIR": state, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        for name in ("COLUMNS", "LINES", "CI", "NO_COLOR", "CARGO_TARGET_DIR"):
            environment.pop(name, None)
        try:
            for command, line in commands():
                terminal = Terminal(command, folder, environment)
                blocks.append((line, terminal))
                if "local up" in command:
                    up_began = time.monotonic()
                if "local listen" in command:
                    listener = terminal
                    terminal.read(until=LISTENS)
                    continue
                terminal.read()
                if "status" in command and UNDER_WAY in terminal.shown():
                    blocks[-1] = (line, settled(command, folder, environment))
                if terminal.code != 0:
                    raise Wrong(f"{command}: exit status {terminal.code}\n{terminal.shown()}")
                if "redial send" in command:
                    listener.read(until=ARRIVED)
                    now = time.monotonic()
                    print(f"the first own message arrived {now - up_began:.0f} s after `local up` began, {now - began:.0f} s after the clone was made")
            if listener:
                listener.type(b"\x03")
                listener.read()
                if listener.code != 0:
                    raise Wrong(f"{listener.command}: exit status {listener.code} after Ctrl-C\n{listener.shown()}")
        finally:
            for _, terminal in blocks:
                terminal.stop(signal.SIGINT)
            subprocess.run(["cargo", "--quiet", "redial", "local", "down"], cwd=folder, env=environment, capture_output=True, check=False)
        if raw:
            raw.write_text("".join(f"$ {line}\n{terminal.shown()}\n" for line, terminal in blocks))
    return blocks


def page(blocks):
    text, wide = [INTRODUCTION], []
    for line, terminal in blocks:
        whole = terminal.lines()
        # A key cannot be broken.
        wide += [f"{terminal.command}: {it}" for it in whole if len(it) > COLUMNS and len(it.split()) > 1]
        shown = "\n".join(map(normal, whole))
        text.append(f"\n```console\n$ {line}\n{shown}\n```\n")
    if wide:
        raise Wrong("wider than the terminal:\n" + "\n".join(wide))
    return "".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--raw", type=pathlib.Path, help="a file for what was shown, unchanged")
    arguments = parser.parse_args()
    began = time.monotonic()
    try:
        with cloned() as clone:
            shown = page(run(clone, time.monotonic(), arguments.raw))
    except Wrong as wrong:
        sys.exit(f"error: {wrong}")
    print(f"the clone and its commands took {time.monotonic() - began:.0f} s; dependencies had been compiled")
    if not arguments.check:
        PAGE.write_text(shown)
        return
    there = PAGE.read_text() if PAGE.exists() else ""
    there, shown = map(without_columns, (there, shown))
    if there != shown:
        name = str(PAGE.relative_to(ROOT))
        sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), shown.splitlines(True), name, "now"))
        sys.exit(f"error: {name} shows anything else than the commands; run infra/ci/transcript.py and look at the difference")


if __name__ == "__main__":
    main()
