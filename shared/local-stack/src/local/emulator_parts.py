"""Servers that keep a stack's queues, waits and tables in place of the emulator: its parts.

CloudFormation makes queues, state machine and tables in the emulator, where they stay empty. Before the next call of their service is
forwarded, each is made at the part as well, under its own name (`emulator_queues`, `emulator_waits`, `emulator_tables`). One that is
there already is another stack's, and refused.

What is made is written to `made.jsonl` in the emulator's folder before it is made, so that it can be removed however the emulator
ends: `emulator.py` removes it in the end, and this file as a program removes what an emulator that was killed has left:

    python3 emulator_parts.py FOLDER [SECONDS]

It prints a line for each reason why something is not removed. Its exit status is 1 then, or 3 if all of it is at servers that do not
listen any more. After SECONDS it gives up.
"""

import asyncio
import concurrent.futures
import contextvars
import http.client
import json
import os
import sys
import threading
import time
from urllib.parse import urlsplit

# What `x-amz-target` begins with.
TARGETS = {"sqs": "AmazonSQS", "states": "AWSStepFunctions", "dynamodb": "DynamoDB_20120810"}
REGION = "us-east-1"
# Longer than a long poll.
LIMIT = 60
MADE = "made.jsonl"
NOTHING = "nothing listens there"
# A long poll of each mapping's workers occupies one for up to 20 s.
WORKERS = 512
CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class PartError(Exception):
    """Why a part did not do what it was asked to."""


class Part:
    """A server of one service, which takes any key."""

    def __init__(self, service, endpoint, key_id):
        self.service, self.endpoint, self.key_id = service, endpoint, key_id
        self.idle = []

    def send(self, headers, body):
        """The answer to a request: status, content type and body."""
        for is_new in (False, True):
            try:
                connection = self.idle.pop()
            except IndexError:
                connection, is_new = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=LIMIT), True
            try:
                connection.request("POST", "/", body, headers)
                answer = connection.getresponse()
                whole = answer.status, answer.getheader("content-type", ""), answer.read()
            except CLOSED:
                connection.close()
                if is_new:  # an idle connection may have been closed at the other end; a new one was not
                    raise
                self.idle.clear()
                continue
            except BaseException:
                connection.close()
                raise
            self.idle.append(connection)
            return whole

    def call(self, action, data):
        """The answer to a call of our own: status and JSON."""
        now = time.gmtime()
        # No part checks a signature, and each wants one in the header.
        scope = f"{self.key_id}/{time.strftime('%Y%m%d', now)}/{REGION}/{self.service}/aws4_request"
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"{TARGETS[self.service]}.{action}",
            "X-Amz-Date": time.strftime("%Y%m%dT%H%M%SZ", now),
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}",
        }
        status, _, body = self.send(headers, json.dumps(data))
        return status, as_json(body)

    def done(self, action, data):
        """The answer to a call that has to succeed."""
        status, answer = self.call(action, data)
        if status != 200:
            raise PartError(f"{action} at {self.endpoint} answered {status}: {code_of(answer)}: {message_of(answer)}")
        return answer

    def has(self, name):
        """The queue's URL, the state machine's ARN or the table's name, if there is one of this name."""
        if self.service == "sqs":
            status, answer = self.call("GetQueueUrl", {"QueueName": name})
            if status == 200:
                return answer["QueueUrl"]
            if "NonExistentQueue" in code_of(answer) or "QueueDoesNotExist" in code_of(answer):
                return None
            return self.done("GetQueueUrl", {"QueueName": name})["QueueUrl"]
        if self.service == "dynamodb":
            status, answer = self.call("DescribeTable", {"TableName": name})
            if code_of(answer) == "ResourceNotFoundException":
                return None
            return name if status == 200 else self.done("DescribeTable", {"TableName": name})["Table"]["TableName"]
        machines = self.pages("ListStateMachines", {}, "stateMachines")
        return next((machine["stateMachineArn"] for machine in machines if machine["name"] == name), None)

    def pages(self, action, data, field):
        while True:
            answer = self.done(action, data)
            yield from answer[field]
            if not answer.get("nextToken"):
                return
            data = {**data, "nextToken": answer["nextToken"]}

    def remove(self, name):
        """Removes a queue, a state machine with its executions, or a table."""
        found = self.has(name)
        if found is None:
            return
        if self.service == "sqs":
            self.done("DeleteQueue", {"QueueUrl": found})
        elif self.service == "dynamodb":
            self.done("DeleteTable", {"TableName": found})
        else:
            running = {"stateMachineArn": found, "statusFilter": "RUNNING"}
            for execution in list(self.pages("ListExecutions", running, "executions")):
                # One that ends in this moment needs no end.
                self.call("StopExecution", {"executionArn": execution["executionArn"]})
            self.done("DeleteStateMachine", {"stateMachineArn": found})


class Made:
    """What was made at parts."""

    def __init__(self, folder):
        self.path = os.path.join(folder, MADE)

    def note(self, part, name):
        """Notes what is about to be made. What is there already is refused: it is not this stack's to use or to remove."""
        if not self.note_new(part, name):
            raise PartError(
                f"{name} exists at {part.endpoint}: another stack of this name uses it, or left it there. "
                "Take that one down, or give this one another name"
            )

    def note_new(self, part, name):
        """Notes what a caller is about to make, unless it is there already; whether it is not."""
        if part.has(name) is not None:
            return False
        with open(self.path, "a") as file:
            entry = {"service": part.service, "endpoint": part.endpoint, "key_id": part.key_id, "name": name}
            file.write(json.dumps(entry) + "\n")
        return True

    def remove(self, limit):
        """Removes it, the last first; answers what could not be removed within `limit` seconds, by the reason."""
        try:
            with open(self.path) as file:
                # The last line is cut short if the process died while it was written: before it made that thing.
                entries = [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return {}
        parts, left = {}, {}
        end = time.monotonic() + limit
        for entry in reversed(entries):
            of_part = entry["service"], entry["endpoint"], entry["key_id"]
            part = parts.setdefault(of_part, Part(*of_part))
            try:
                if time.monotonic() > end:
                    raise PartError("it takes too long")
                part.remove(entry["name"])
            except ConnectionRefusedError:
                left.setdefault((entry["endpoint"], NOTHING), []).append(entry["name"])
            except (OSError, http.client.HTTPException, PartError, ValueError, KeyError) as error:
                left.setdefault((entry["endpoint"], str(error)), []).append(entry["name"])
        if not left:
            os.unlink(self.path)
        return left


def as_json(body):
    try:
        return json.loads(body or b"{}")
    except ValueError:
        return {}


def code_of(answer):
    return str(answer.get("__type", "")).rsplit("#", 1)[-1] if isinstance(answer, dict) else ""


def message_of(answer):
    return answer.get("message") or answer.get("Message") or "no message"


def renamed(value, names):
    """A JSON value in which each text that is one of `names` is what that stands for."""
    if isinstance(value, dict):
        return {field: renamed(part, names) for field, part in value.items()}
    if isinstance(value, list):
        return [renamed(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value


def renamed_in_text(text, names):
    """The same for a text that is JSON; any other is as it was."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return text
    other = renamed(value, names)
    return text if other == value else json.dumps(other)


workers = concurrent.futures.ThreadPoolExecutor(WORKERS, "part")


def apart(function, *arguments):
    """Awaits a function that blocks, without a limit that long polls could reach."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(workers, context.run, function, *arguments)


def routed(app, target, forward):
    """The ASGI application `app`, whose calls of one service are answered by `forward(headers, body)`."""

    async def route(scope, receive, send):
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        if not headers.get(b"x-amz-target", b"").startswith(target.encode()):
            return await app(scope, receive, send)
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
        status, kind, answer = await apart(answered, forward, headers, body)
        fields = [(b"content-type", kind.encode()), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": answer})

    return route


def answered(forward, headers, body):
    try:
        return forward(headers, body)
    except PartError as error:
        status, code, message = 400, "PartRefused", str(error)
    except (OSError, http.client.HTTPException) as error:
        status, code, message = 503, "PartUnavailable", f"{type(error).__name__}: {error}"
    return status, "application/x-amz-json-1.0", json.dumps({"__type": code, "message": message}).encode()


def kept_elsewhere(app, folder, key_id, sqs, states, dynamodb):
    """The ASGI application `app`, with parts at these endpoints; an empty one is the emulator's own."""
    import emulator_queues
    import emulator_tables
    import emulator_waits

    made, queues = Made(folder), None
    if sqs:
        queues = emulator_queues.Queues(Part("sqs", sqs, key_id), made)
        queues.take_over()
    if states:
        app = emulator_waits.kept_elsewhere(app, Part("states", states, key_id), made, queues)
    if dynamodb:
        app = emulator_tables.kept_elsewhere(app, Part("dynamodb", dynamodb, key_id), made)
    return app


def main():
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else LIMIT
    left = Made(sys.argv[1]).remove(limit)
    for (endpoint, reason), names in left.items():
        print(f"at {endpoint}: {reason}: {', '.join(names)}")
    sys.exit((3 if all(reason == NOTHING for _, reason in left) else 1) if left else 0)


if __name__ == "__main__":
    main()
