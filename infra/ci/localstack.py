#!/usr/bin/env python3
"""Runs a command beside LocalStack in host mode, whose address the command finds in REDIAL_LOCALSTACK_ENDPOINT.

    python3 infra/ci/localstack.py cargo run --bin redial -- demo --emulator localstack --endpoint …

LocalStack is installed once, from PyPI, to target/ci/localstack (340 MB), at the versions and hashes of infra/ci/localstack.txt. Its
DynamoDB is the DynamoDB Local of infra/ci/dynamodb_local.py, which lies where LocalStack would download another one. It keeps nothing,
listens on a free port of 127.0.0.1 (its DynamoDB Local on one of every address), runs no functions, and ends with the command, whose exit
status is this script's. Several may run at once: each has a folder of its own, which it removes. It requires Python 3.13 (or `uv`, which
installs it), `java` and `npm`. Where it cannot be had, the exit status is 77, and the reason is the last line of the output.
"""

import base64
import glob
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile

import dynamodb_local
from beside import end, end_when_interrupted, run
from dynamodb_local import CANNOT, Unavailable
from run_folder import locked, run_folder

LIST = pathlib.Path(__file__).resolve().with_name("localstack.txt")
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "target/ci/localstack"
# Not on PyPI as wheels.
SOURCES = {"airspeed-ext", "crontab", "jsonpath-rw"}
SERVICES = "sqs,stepfunctions,dynamodb,secretsmanager,logs,cloudwatch,iam,sts,s3,cloudformation,lambda,events,apigateway"
START_LIMIT = 120
# LocalStack starts DynamoDB Local with a Java agent that raises one of its limits. This one does nothing; compiled for Java 17:
# public class Agent { public static void premain(String a) {} public static void premain(String a, java.lang.instrument.Instrumentation i) {} }
AGENT = """
yv66vgAAAD0AEAoAAgADBwAEDAAFAAYBABBqYXZhL2xhbmcvT2JqZWN0AQAGPGluaXQ+AQADKClWBwAIAQAFQWdlbnQBAARDb2RlAQAPTGluZU51bWJlclRh
YmxlAQAHcHJlbWFpbgEAFShMamF2YS9sYW5nL1N0cmluZzspVgEAOyhMamF2YS9sYW5nL1N0cmluZztMamF2YS9sYW5nL2luc3RydW1lbnQvSW5zdHJ1bWVu
dGF0aW9uOylWAQAKU291cmNlRmlsZQEACkFnZW50LmphdmEAIQAHAAIAAAAAAAMAAQAFAAYAAQAJAAAAHQABAAEAAAAFKrcAAbEAAAABAAoAAAAGAAEAAAAB
AAkACwAMAAEACQAAABkAAAABAAAAAbEAAAABAAoAAAAGAAEAAAABAAkACwANAAEACQAAABkAAAACAAAAAbEAAAABAAoAAAAGAAEAAAABAAEADgAAAAIADw==
"""


def is_python_3_13(python):
    code = "import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 13))"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def python_3_13():
    """A Python 3.13 that is installed, or that uv installs under FOLDER: LocalStack's own code requires no less."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    candidates = [sys.executable, shutil.which("python3.13"), *sorted(glob.glob(f"{pyenv}/versions/3.13.*/bin/python3.13"))]
    for python in filter(None, candidates):
        if is_python_3_13(python):
            return python
    uv = shutil.which("uv")
    if not uv:
        raise Unavailable("Python 3.13 is missing, and uv, which could install it")
    environment = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(FOLDER / "python")}
    for command in (["install", "--no-bin", "3.13"], ["find", "3.13"]):
        ran = subprocess.run([uv, "python", *command], env=environment, stdout=subprocess.PIPE, text=True)
        if ran.returncode:
            raise Unavailable(f"uv could not install Python 3.13: uv python {command[0]} ended with status {ran.returncode}")
    return ran.stdout.strip()


def installed():
    """The Python of the virtual environment that LocalStack is in; installs it if need be, unless another process just does."""
    with locked(FOLDER.with_suffix(".lock")):
        return environment_with_localstack()


def environment_with_localstack():
    wanted = LIST.read_text()
    marker, python = FOLDER / "installed.txt", FOLDER / "venv/bin/python"
    if marker.exists() and marker.read_text() == wanted and is_python_3_13(python):
        return python
    base = python_3_13()
    marker.unlink(missing_ok=True)
    subprocess.run([base, "-m", "venv", "--clear", FOLDER / "venv"], check=True)
    packages = re.findall(r"^[A-Za-z].*(?:\n +.*)*", wanted, re.MULTILINE)
    sources = [it for it in packages if re.match(r"[\w.-]+", it)[0] in SOURCES]
    wheels = [it for it in packages if it not in sources]
    # The second command finds what it builds with in the environment: pip does not check the hashes of what it would fetch for that.
    for part, how in ((wheels, ["--only-binary", ":all:"]), (sources, ["--no-build-isolation"])):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
            requirements.write("\n".join(part) + "\n")
            requirements.flush()
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", *how]
            if status := subprocess.run([*pip, "-r", requirements.name], stdin=subprocess.DEVNULL).returncode:
                raise SystemExit(f"installing LocalStack failed: pip ended with status {status}")
    marker.write_text(wanted)
    return python


def java_home():
    java = shutil.which("java")
    if not java or subprocess.run([java, "-version"], capture_output=True).returncode:
        raise Unavailable("Java is missing")
    settings = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True).stderr
    return re.search(r"java\.home = (.+)", settings)[1]


def prepare(root, home, jars):
    """Puts DynamoDB Local and Java where LocalStack looks for what it has downloaded, and names the region. Without it, LocalStack sets and
    removes a variable of its own process for each template that it transforms, and two stacks that are created at once fail."""
    (root / ".aws").mkdir()
    (root / ".aws/config").write_text("[default]\nregion = us-east-1\n")
    libraries = root / "var/lib/localstack/lib"
    dynamodb = libraries / "dynamodb-local/2"
    dynamodb.mkdir(parents=True)
    for name in ("DynamoDBLocal.jar", "DynamoDBLocal_lib"):
        (dynamodb / name).symlink_to(jars / name)
    with zipfile.ZipFile(dynamodb / "ddb-local-loader-0.1.jar", "w") as agent:
        agent.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: Agent\n")
        agent.writestr("Agent.class", base64.b64decode(AGENT))
    (libraries / "java").mkdir()
    (libraries / "java/21").symlink_to(home)
    (root / "tmp").mkdir()


def listen_at(port):
    """Where LocalStack is to listen. It ignores an IPv4 address and listens on all of them, but not one that is written as IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as listener:
            listener.bind(("::ffff:127.0.0.1", 0))
        return f"[::ffff:127.0.0.1]:{port}"
    except OSError:
        return f"127.0.0.1:{port}"


def start(python, root, lock, port, log):
    """LocalStack in that folder, whose lock it shares: a process that ends this script without its knowledge ends no LocalStack."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "TMPDIR": str(root / "tmp"),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={root / 'tmp'}",
        "TZ": "UTC",
        "OVERRIDE_IN_DOCKER": "0",
        "FILESYSTEM_ROOT": str(root),
        "GATEWAY_LISTEN": listen_at(port),
        "DYNAMODB_IN_MEMORY": "1",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
        "SERVICES": SERVICES,
        # As on a machine without Docker, wherever this runs.
        "DOCKER_HOST": "tcp://127.0.0.1:1",
    }
    command = [python, "-m", "localstack.runtime.main"]
    return subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=[lock],
    )


def until_ready(name, process, url, log, seconds):
    """Returns when the server of that name answers at the URL."""
    limit = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < limit:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    log.seek(0)
    raise SystemExit(f"{name} did not start:\n{log.read()[-5000:]}")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    end_when_interrupted()
    try:
        home, python, jars = java_home(), installed(), dynamodb_local.installed()
    except Unavailable as reason:
        print(reason)
        sys.exit(CANNOT)
    port = dynamodb_local.free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with run_folder(FOLDER / "runs") as (root, lock), tempfile.TemporaryFile("w+") as log:
        prepare(root, home, jars)
        process = start(python, root, lock, port, log)
        try:
            until_ready("LocalStack", process, f"{endpoint}/_localstack/health", log, START_LIMIT)
            status = run(sys.argv[1:], "REDIAL_LOCALSTACK_ENDPOINT", endpoint)
        finally:
            end(process)
    sys.exit(status)


if __name__ == "__main__":
    main()
