"""Has another Step Functions keep a stack's state machine and its executions.

A caller sees the emulator's ARNs, and the part is called by its own. An execution sends to a queue whose URL is in its input: the
part calls its own SQS, so it gets that one's URL. That it has the stack's queues is a condition of using it.
"""

import json
import threading

from emulator_parts import TARGETS, as_json, renamed_in_text, routed

OF_A_MACHINE = ("name", "definition", "roleArn", "type")
# Texts that are JSON, and name queues.
DOCUMENTS = ("input", "output", "parameters")


def kept_elsewhere(app, part, made, queues):
    """The ASGI application `app`, whose calls of Step Functions go to `part`; `queues` are those at its SQS."""
    from ministack.services import stepfunctions

    making, copied, prefixes = threading.Lock(), set(), {}

    def make():
        queues.make()
        with making:
            for arn, machine in list(stepfunctions._state_machines.items()):
                if arn not in copied:
                    made.note(part, machine["name"])
                    created = part.done("CreateStateMachine", {name: machine[name] for name in OF_A_MACHINE})
                    prefixes["ours"], prefixes["theirs"] = account(arn), account(created["stateMachineArn"])
                    copied.add(arn)

    def forward(headers, body):
        make()
        action = headers["x-amz-target"].rsplit(".", 1)[-1]
        data = with_names(as_json(body), prefixes.get("ours"), prefixes.get("theirs"), queues.theirs)
        if action == "CreateStateMachine" and "name" in data:
            made.note_new(part, data["name"])
        status, answer = part.call(action, data)
        answer = with_names(answer, prefixes.get("theirs"), prefixes.get("ours"), queues.ours)
        return status, "application/x-amz-json-1.0", json.dumps(answer).encode()

    return routed(app, TARGETS["states"], forward)


def account(arn):
    """An ARN up to its account."""
    return ":".join(arn.split(":")[:5]) + ":"


def with_names(value, before, after, names):
    """A JSON value with the ARNs of another account, and in documents other names of queues."""
    if isinstance(value, dict):
        return {
            field: renamed_in_text(part, names) if field in DOCUMENTS else with_names(part, before, after, names)
            for field, part in value.items()
        }
    if isinstance(value, list):
        return [with_names(part, before, after, names) for part in value]
    if before and isinstance(value, str) and value.startswith(before):
        return after + value[len(before) :]
    return value
