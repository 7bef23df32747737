#!/usr/bin/env python3
"""Runs a command beside Amazon's own DynamoDB Local, whose address the command finds in REDIAL_DYNAMODB_ENDPOINT.

    python3 infra/ci/dynamodb_local.py cargo test -p redial-adapters --lib

The npm package amplify-dynamodb-simulator ships 1.25.1, which has PartiQL: it is downloaded once (56 MB), by its hash, to
target/ci/dynamodb-local. It keeps its tables in memory, listens on a free port of every address of this machine (it has no option
for that), and ends with the command, whose exit status is this script's. It requires `java` and `npm`. Where it cannot be had, the
exit status is 77, and the reason is the last line of the output.
"""

import hashlib
import pathlib
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

from beside import end_when_interrupted, run
from run_folder import locked

PACKAGE = "amplify-dynamodb-simulator@2.9.30"
SHA256 = "3503ffac19f183407909fecdacf4db51ab1fdad1da7b2f177016670b2d80e4b9"
CANNOT = 77  # as the test harnesses of GNU have it
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "target/ci/dynamodb-local"
START_LIMIT = 60


class Unavailable(Exception):
    """Why there is no DynamoDB Local here."""


def installed():
    """The folder of the jar; downloads it if need be, unless another process just does."""
    with locked(FOLDER.with_suffix(".lock")):
        return folder_with_jar()


def folder_with_jar():
    marker = FOLDER / "installed.txt"
    if marker.exists() and marker.read_text() == SHA256:
        return FOLDER
    npm = shutil.which("npm")
    if not npm:
        raise Unavailable("npm, with which it is downloaded, is missing")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as download:
        packed = subprocess.run(
            [npm, "pack", "--silent", PACKAGE], cwd=download, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        archives = list(pathlib.Path(download).glob("*.tgz"))
        if packed.returncode or len(archives) != 1:
            raise Unavailable(f"npm pack {PACKAGE} failed with status {packed.returncode}")
        found = hashlib.sha256(archives[0].read_bytes()).hexdigest()
        if found != SHA256:
            raise SystemExit(f"{PACKAGE}: expected a package with the SHA-256 {SHA256}, found {found}")
        prefix = "package/emulator/"
        with tarfile.open(archives[0]) as archive:
            for member in archive:
                if member.isfile() and member.name.startswith(prefix) and ".." not in member.name:
                    member.name, member.mode = member.name[len(prefix) :], 0o644
                    archive.extract(member, FOLDER)
    marker.write_text(SHA256)
    return FOLDER


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def started(folder, temporary, log):
    """The process, which answers, and its address. The port may be taken before it is bound: then another is tried."""
    java = shutil.which("java")
    if not java or subprocess.run([java, "-version"], capture_output=True).returncode:
        raise Unavailable("Java is missing")
    for _ in range(3):
        port = free_port()
        command = [java, f"-Djava.library.path={folder}/DynamoDBLocal_lib", f"-Djava.io.tmpdir={temporary}"]
        process = subprocess.Popen(
            [*command, "-jar", f"{folder}/DynamoDBLocal.jar", "-inMemory", "-disableTelemetry", "-port", str(port)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        end = time.monotonic() + START_LIMIT
        while process.poll() is None and time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5)
            except urllib.error.HTTPError:  # a request without a signature is refused
                return process, f"http://127.0.0.1:{port}"
            except OSError:
                time.sleep(0.1)
        process.kill()
        process.wait()
    log.seek(0)
    raise SystemExit(f"DynamoDB Local did not start:\n{log.read()}")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    end_when_interrupted()
    try:
        # Java leaves a library in its folder when it is killed.
        with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryFile("w+") as log:
            process, endpoint = started(installed(), temporary, log)
            try:
                status = run(sys.argv[1:], "REDIAL_DYNAMODB_ENDPOINT", endpoint)
            finally:
                process.kill()
                process.wait()
    except Unavailable as reason:
        print(reason)
        status = CANNOT
    sys.exit(status)


if __name__ == "__main__":
    main()
