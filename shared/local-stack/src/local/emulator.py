"""Runs the emulator, and ends it when its owner goes away.

Arguments: the folder of this emulator, the endpoint that functions are to call (empty: the emulator itself), and those of the SQS, the
Step Functions and the DynamoDB that keep queues, waits and tables (empty: the emulator).

- The port is chosen here, by binding it, and written to `port`: so two that start at once never meet.
- What this process and the functions create is for their user alone. `emulator_guard` says which callers are answered.
- `lock` is held for as long as this process lives, and its content is the process id.
- It leads a session of its own, and the functions it starts stay in its process group, so that ending the group ends
  them all. That happens as soon as standard input ends, which it does however the owner dies, or on SIGUSR1; the
  folder goes with it, and what was made at other servers. One byte on standard input sets it free of its owner. Nothing
  in here is worth a graceful end, but the functions are reaped, because not every process 1 does that.
"""

import fcntl
import os
import shutil
import signal
import socket
import sys
import threading
import time


# Seconds; an owner that lives has removed it before.
REMOVAL_LIMIT = 30


def watch_owner(ending):
    if not os.read(0, 1):
        ending.set()


def end_all(ending, folder):
    ending.wait()
    os.killpg(0, signal.SIGUSR1)  # ends the functions, which do not handle it
    give_up = time.monotonic() + 1
    while time.monotonic() < give_up:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            break
    if os.path.exists(os.path.join(folder, "made.jsonl")):
        import emulator_parts

        removal = threading.Thread(target=emulator_parts.Made(folder).remove, args=(REMOVAL_LIMIT,), daemon=True)
        removal.start()
        removal.join(REMOVAL_LIMIT)
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def main():
    folder, function_endpoint, *parts = sys.argv[1:6]
    os.umask(0o077)
    os.setsid()
    ending = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: ending.set())
    threading.Thread(target=watch_owner, args=(ending,), daemon=True).start()
    threading.Thread(target=end_all, args=(ending, folder), daemon=True).start()

    lock = open(os.path.join(folder, "lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.write(str(os.getpid()))
    lock.flush()

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.bind(("127.0.0.1", 0))
    port = str(listener.getsockname()[1])
    os.environ["GATEWAY_PORT"] = port
    os.environ["AWS_ENDPOINT_URL"] = function_endpoint or f"http://127.0.0.1:{port}"

    # Python runs isolated (-I), so the script's own folder is not searched.
    sys.path.append(folder)
    import emulator_guard
    import emulator_init_errors
    import emulator_parts
    import hypercorn.asyncio
    import yaml

    # The emulator reads the template with a class derived from this one: in C that takes a twelfth of the time.
    yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    serve = hypercorn.asyncio.serve
    key_id, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    emulator_guard.guard_functions(key_id)
    emulator_init_errors.log_init_errors()

    async def serve_on_listener(app, config, **arguments):
        config.bind = [f"fd://{listener.fileno()}"]
        listener.listen(1024)
        with open(os.path.join(folder, "port.new"), "w") as file:
            file.write(port)
        os.replace(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
        app = emulator_parts.kept_elsewhere(app, folder, key_id, *parts)
        return await serve(emulator_guard.guarded(app, key_id, secret), config, **arguments)

    hypercorn.asyncio.serve = serve_on_listener

    from ministack.app import main as run

    sys.argv = ["ministack"]
    run()


main()
