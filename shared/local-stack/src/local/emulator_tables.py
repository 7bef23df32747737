"""Has another DynamoDB keep a stack's tables: Amazon's own DynamoDB Local, say, which refuses what the emulator accepts.

DynamoDB Local has a database for each access key id, so stacks do not share tables there: requests keep the caller's.
"""

import threading

from emulator_parts import TARGETS, as_json, routed

# What CreateTable takes of what the emulator keeps.
OF_A_TABLE = ("TableName", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
FORWARDED = ("x-amz-target", "authorization", "x-amz-date", "content-type")


def kept_elsewhere(app, part, made):
    """The ASGI application `app`, whose calls of DynamoDB go to `part`."""
    from ministack.services import dynamodb

    copying, copied = threading.Lock(), set()

    def forward(headers, body):
        with copying:
            for name, table in list(dynamodb._tables.items()):
                if name not in copied:
                    made.note(part, name)
                    request = {field: table[field] for field in OF_A_TABLE if table.get(field)}
                    part.done("CreateTable", {**request, "BillingMode": "PAY_PER_REQUEST"})
                    copied.add(name)
        if headers["x-amz-target"].endswith(".CreateTable") and "TableName" in as_json(body):
            made.note_new(part, as_json(body)["TableName"])
        return part.send({name: headers[name] for name in FORWARDED if name in headers}, body)

    return routed(app, TARGETS["dynamodb"], forward)
