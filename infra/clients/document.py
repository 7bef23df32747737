"""The API's description as the generators of clients read it.

`infra/openapi.v1.json` refers to the message's schema in a file of its own, and `redial openapi` prints both as one document. Generators
need that, and a little more: they name a type after its place under `components.schemas`, so the parts of the message's schema move there.

Nothing here adds to the API or takes from it. `.ci/run clients` compares `published` with what `redial openapi` prints.
"""

import copy
import json
import pathlib

INFRA = pathlib.Path(__file__).resolve().parents[1]
PARTS = "#/$defs/"
MESSAGE = "#/components/schemas/Message/$defs/"


def renamed(node, name):
    """The same, with each reference as `name` gives it."""
    if isinstance(node, dict):
        return {key: name(value) if key == "$ref" else renamed(value, name) for key, value in node.items()}
    if isinstance(node, list):
        return [renamed(value, name) for value in node]
    return node


def published():
    """One document, as `redial openapi` prints it: a message leaves out its tenant, which is the API key's."""
    document = json.loads((INFRA / "openapi.v1.json").read_text())
    message = json.loads((INFRA / "schema/message.v1.json").read_text())
    del message["$schema"], message["$id"]
    message["required"].remove("tenant")
    document["components"]["schemas"]["Message"] = renamed(message, lambda to: to.replace(PARTS, MESSAGE))
    return document


def part_name(part):
    """`https_url` is the type `MessageHttpsUrl`."""
    return "Message" + "".join(word.capitalize() for word in part.split("_"))


def for_generators(open_values=False):
    """The published document, with each part of the message's schema as a schema of its own.

    `open_values` is for a generator whose code refuses a value that its document does not list: responses gain values from release to
    release, and a client must be able to read those, too. What it makes of an optional `const` is a SyntaxWarning.
    """
    document = copy.deepcopy(published())
    schemas = document["components"]["schemas"]
    parts = schemas["Message"].pop("$defs")
    for part, schema in parts.items():
        assert part_name(part) not in schemas, f"infra/schema/message.v1.json: $defs/{part} and a schema of the API have the same name"
        schemas[part_name(part)] = schema

    def name(to):
        return f"#/components/schemas/{part_name(to.removeprefix(MESSAGE))}" if to.startswith(MESSAGE) else to

    document = renamed(document, name)
    for schema in document["components"]["schemas"].values():
        # The name is the schema's place, and a client sends what its caller has set.
        without(schema, "default", "title")
    # A page's beacon cannot set a content type, so /v1/acks takes text/plain as well: the same body. A client needs one of them.
    for _, operation in every_operation(document):
        operation.get("requestBody", {}).get("content", {}).pop("text/plain", None)
    if open_values:
        version = document["components"]["schemas"]["Message"]["properties"]["v"]
        version |= {"type": "integer", "enum": [version.pop("const")]}
        sent = schemas_sent(document)
        for schema_name, schema in document["components"]["schemas"].items():
            if schema_name not in sent:
                opened(schema)
    return document


def without(node, *names):
    """Leaves out these keywords of a schema, but not properties that are named so."""
    for name in names:
        if not isinstance(node.get(name), dict):
            node.pop(name, None)
    for schema in below(node):
        without(schema, *names)


def below(schema):
    """The schemas in a schema."""
    for keyword, value in schema.items():
        if keyword == "properties":
            yield from value.values()
        elif keyword in ("oneOf", "anyOf", "allOf"):
            yield from value
        elif keyword in ("items", "additionalProperties") and isinstance(value, dict):
            yield value


def opened(schema):
    """Takes `enum` for the values that are there so far."""
    if "enum" in schema:
        so_far = "So far " + ", ".join(f"`{value}`" for value in schema.pop("enum")) + "."
        schema["type"] = "string"
        schema["description"] = f"{schema['description']} {so_far}" if "description" in schema else so_far
    for inner in below(schema):
        opened(inner)


def references(node):
    """The names of all schemas that a node refers to."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def schemas_sent(document):
    """The names of the schemas that requests consist of."""
    found = set()
    waiting = [name for _, operation in every_operation(document) for name in references(operation.get("requestBody", {}))]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(document["components"]["schemas"][name])
    return found


def every_operation(document):
    """Each operation's id and its object."""
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict):
                yield operation["operationId"], operation
