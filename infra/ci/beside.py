"""A command that runs beside a server, and ends with what it started."""

import os
import signal
import subprocess
import sys

END_LIMIT = 15


def end(process):
    """Ends a process, which leads a group, with what it started."""
    for number, limit in ((signal.SIGTERM, END_LIMIT), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            pass
    process.wait()


def run(command, variable, endpoint):
    """The command's exit status. It is asked to end if this script is, with what it started: it leads a process group."""
    process = subprocess.Popen(command, env={**os.environ, variable: endpoint}, start_new_session=True)
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            end(process)


def interrupted(number, _frame):
    # Once: what ends the server must not be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def end_when_interrupted():
    """From now on what was started here ends with this script."""
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
