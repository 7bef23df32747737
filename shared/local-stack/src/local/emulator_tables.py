"""Has another DynamoDB keep a stack's tables: Amazon's own DynamoDB Local, which refuses what the emulator accepts.

CloudFormation makes the tables in the emulator, where they stay empty. Before the next call of DynamoDB is forwarded, each is made in the
other one as well. DynamoDB Local has a database for each access key id, so stacks do not share tables.
"""

import asyncio
import http.client
import json
import threading
from urllib.parse import urlsplit

# What CreateTable takes of what the emulator keeps.
OF_A_TABLE = ("TableName", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
CREATE_TABLE = "DynamoDB_20120810.CreateTable"
FORWARDED = (b"x-amz-target", b"authorization", b"x-amz-date", b"content-type")


def kept_elsewhere(app, endpoint):
    """The ASGI application `app`, whose calls of DynamoDB go to `endpoint`."""
    from ministack.services import dynamodb

    connections, copying, copied = threading.local(), threading.Lock(), set()

    def call(headers, body):
        for fresh in (False, True):
            if fresh or not hasattr(connections, "one"):
                connections.one = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
            try:
                connections.one.request("POST", "/", body, headers)
                answer = connections.one.getresponse()
                return answer.status, answer.getheader("content-type", ""), answer.read()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                if fresh:  # an idle connection may have been closed at the other end; a new one was not
                    raise

    def forward(headers, body):
        with copying:
            for name, table in list(dynamodb._tables.items()):
                if name not in copied:
                    copied.add(name)
                    request = {field: table[field] for field in OF_A_TABLE if table.get(field)}
                    request = json.dumps({**request, "BillingMode": "PAY_PER_REQUEST"})
                    status, _, text = call({**headers, "x-amz-target": CREATE_TABLE}, request)
                    if status != 200:
                        raise RuntimeError(f"{name} was not made in DynamoDB Local: {text.decode()}")
        return call(headers, body)

    async def route(scope, receive, send):
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        if not headers.get(b"x-amz-target", b"").startswith(b"DynamoDB_"):
            return await app(scope, receive, send)
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        kept = {name.decode(): headers[name].decode() for name in FORWARDED if name in headers}
        status, kind, answer = await asyncio.to_thread(forward, kept, body)
        fields = [(b"content-type", kind.encode()), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": answer})

    return route
