#!/usr/bin/env python3
"""Runs a command beside moto's server, whose address the command finds in REDIAL_MOTO_ENDPOINT.

    python3 infra/ci/moto.py cargo run --bin redial -- demo --emulator parts --sqs …

It is moto as LocalStack's installation has it (infra/ci/localstack.py), a program of its own with an SQS of its own. It keeps everything
in memory, listens on a free port of 127.0.0.1, and ends with the command, whose exit status is this script's. Where it cannot be had, the
exit status is 77, and the reason is the last line of the output.
"""

import subprocess
import sys
import tempfile

import dynamodb_local
import localstack
from beside import end_when_interrupted, run
from dynamodb_local import CANNOT, Unavailable

START_LIMIT = 60


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    end_when_interrupted()
    try:
        python = localstack.installed()
    except Unavailable as reason:
        print(reason)
        sys.exit(CANNOT)
    port = dynamodb_local.free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile("w+") as log:
        command = [python, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            localstack.until_ready("moto", process, f"{endpoint}/moto-api/data.json", log, START_LIMIT)
            status = run(sys.argv[1:], "REDIAL_MOTO_ENDPOINT", endpoint)
        finally:
            process.kill()
            process.wait()
    sys.exit(status)


if __name__ == "__main__":
    main()
