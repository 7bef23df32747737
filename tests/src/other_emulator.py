"""The emulator of local stacks, without its guard and in another account: a server of SQS, Step Functions and DynamoDB that takes any key.

Prints its port. Ends with its standard input.
"""

import os
import socket
import sys
import threading

listener = socket.socket()
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
listener.bind(("127.0.0.1", 0))
os.environ["GATEWAY_PORT"] = str(listener.getsockname()[1])
output = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def end_with_owner():
    os.read(0, 1)
    os._exit(0)


threading.Thread(target=end_with_owner, daemon=True).start()

import hypercorn.asyncio  # noqa: E402

serve = hypercorn.asyncio.serve


async def serve_on_listener(app, config, **arguments):
    config.bind = [f"fd://{listener.fileno()}"]
    listener.listen(1024)
    os.write(output, f"{os.environ['GATEWAY_PORT']}\n".encode())
    return await serve(app, config, **arguments)


hypercorn.asyncio.serve = serve_on_listener

from ministack.app import main  # noqa: E402

sys.argv = ["ministack"]
main()
