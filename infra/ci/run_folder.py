"""Folders that several processes use at once: one for an installation, which they share, and one for each run."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile


@contextlib.contextmanager
def locked(path):
    """Holds the lock of this file, which ends with the process at the latest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_used(lock):
    """Whether a process has this file locked. If not, this one has from now on."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def remove_leftovers(runs):
    """Removes the folders of runs that were killed."""
    for folder in runs.iterdir():
        if folder.is_dir():
            with contextlib.suppress(FileNotFoundError), open(folder / "lock") as lock:
                if is_used(lock):
                    continue
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def run_folder(runs):
    """A folder of this run's own in `runs`, and the descriptor of its lock. A process that inherits the descriptor uses the folder as long
    as it runs; a later run removes what no one uses."""
    with locked(runs / "lock"):
        remove_leftovers(runs)
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=runs))
        lock = open(folder / "lock", "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder, lock.fileno()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
