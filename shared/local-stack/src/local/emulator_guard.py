"""Refuses every caller of the emulator but the owner of the stack.

The emulator listens on the loopback address and has no authentication that is on. Every user of the machine can connect to it,
and so can every page in a browser. A caller of its Lambda API can replace a function's code, and the functions run with the
permissions of the stack's owner. So a request has to be signed with the stack's key, which is random and new for each stack.

| request | rule |
|---|---|
| any | `Host` is a name of this machine. A page can give its own domain the address 127.0.0.1 (DNS rebinding) |
| AWS APIs, administration of the emulator | no `Origin`, and a SigV4 signature by the stack's key |
| HTTP API, which is a function's URL | none: as on AWS, the function itself asks for an API key or a token and decides on CORS |
| Runtime API, where functions get events | its path begins with a secret, which only the functions' environment has |
| WebSocket | refused: nothing in the template uses it |

The port in `Host` is not compared: a proxy in front of the emulator has another one, and a rebound domain differs in its name.
The signature covers the body as the caller sent it, unless the caller signs without (`UNSIGNED-PAYLOAD`) or a proxy that changed
the body gives the hash that was signed (`x-amz-content-sha256`). A caller without the key can sign neither.
"""

import hmac
import http.server
import json
import re
import secrets
import uuid
from urllib.parse import parse_qs, quote

HOSTS = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.IGNORECASE)
# With an id: the emulator takes a path without one for a call of any of AWS's APIs.
HTTP_API = re.compile(r"/_aws/lambda-url/[A-Za-z0-9]+(/.*)?", re.DOTALL)
KEY_HINT = "`redial local env` prints this stack's key"


def guarded(app, key_id, secret):
    """The ASGI application `app`, for callers that may call it."""

    async def guard(scope, receive, send):
        if scope["type"] == "lifespan":
            return await app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        headers = headers_of(scope)
        is_http_api = HTTP_API.fullmatch(scope["path"])
        refusal = wrong_origin(headers, is_http_api)
        if not refusal and not is_http_api:
            refusal, receive = await wrong_signature(scope, headers, receive, key_id, secret)
        if refusal:
            return await refuse(scope, headers, send, *refusal)
        return await app(scope, receive, send)

    return guard


def headers_of(scope):
    """As the emulator joins them, so that both see one request."""
    from ministack.core.sigv4 import decode_header_value

    headers = {}
    for name, value in scope["headers"]:
        name, value = name.decode("latin-1").lower(), decode_header_value(value)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def wrong_origin(headers, is_http_api):
    if not HOSTS.fullmatch(headers.get("host", "")):
        return "AccessDenied", "Host: not a name of this machine; expected 127.0.0.1 or localhost with the emulator's port"
    if "origin" in headers and not is_http_api:
        return "AccessDenied", "Origin: found in a request to an AWS API; pages in a browser may call the HTTP API only"
    return None


async def wrong_signature(scope, headers, receive, key_id, secret):
    """Why the request is refused, or None; and where its body is to be read from now on."""
    from ministack.core import sigv4

    if not headers.get("authorization"):
        return ("AccessDenied", f"Authorization: not found; requests have to be signed: {KEY_HINT}"), receive
    signature = sigv4.parse_header_signature(headers)
    if isinstance(signature, tuple):
        return signature, receive
    # Before the body is read: a stranger's may be of any length.
    if signature.region_set is not None or not same(signature.access_key_id, key_id):
        return ("InvalidClientTokenId", f"The access key id is not that of this stack: {KEY_HINT}"), receive
    late = sigv4.request_time_failure(signature)
    if late:
        return late, receive
    signed_hash = headers.get("x-amz-content-sha256", "")
    body = b""
    if not signed_hash or signed_hash.startswith("STREAMING-AWS4-"):
        body = await whole(receive)
        if body is None:
            return ("IncompleteBody", "The request ended before its body"), receive
        receive = again(body, receive)
    query = parse_qs(scope["query_string"].decode("utf-8", "replace"), keep_blank_values=True)
    path = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
    try:
        failure = sigv4.header_signature_failure(signature, secret, scope["method"], path, query, headers, body)
    except (TypeError, ValueError):  # of a text that no signature has, such as one that is not ASCII
        failure = "SignatureDoesNotMatch", sigv4.SIGNATURE_MISMATCH
    return failure, receive


def same(found, expected):
    return hmac.compare_digest(found.encode(), expected.encode())


async def whole(receive):
    """The whole body; None if the caller goes away before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def again(body, receive):
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay():
        return messages.pop() if messages else await receive()

    return replay


async def refuse(scope, headers, send, code, message):
    """403, in the form in which SDKs of the called service read errors."""
    from ministack.core.iam_actions import access_denied_response
    from ministack.core.responses import fix_error_content_type
    from ministack.core.router import detect_service

    try:
        service = detect_service(scope["method"], scope["path"], headers, {})
        request_id = str(uuid.uuid4())
        status, fields, body = access_denied_response(
            service, "", "", request_id, error_code=code, message=message, headers=headers
        )
        fix_error_content_type(service, status, fields)
    except Exception:  # what a stranger sends may be anything
        fields = {"Content-Type": "application/json", "x-amzn-errortype": code}
        body = json.dumps({"__type": code, "message": message}).encode()
    fields = {**fields, "Content-Length": str(len(body))}
    fields = [(name.lower().encode("latin-1"), str(value).encode("latin-1")) for name, value in fields.items()]
    # Some services answer 400 on AWS; here, one status says that the guard refused.
    await send({"type": "http.response.start", "status": 403, "headers": fields})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def guard_functions(key_id):
    """Gives the functions the stack's key, and a Runtime API that only they can call."""
    from ministack.services import lambda_svc

    prefix = "/" + secrets.token_hex(16)
    environment_of, parse = lambda_svc._provided_worker_env, http.server.BaseHTTPRequestHandler.parse_request

    def environment(config, code_dir, port):
        # The emulator takes the account's number for the key's id; the secret is inherited from this process.
        return {
            **environment_of(config, code_dir, port),
            "AWS_ACCESS_KEY_ID": key_id,
            "AWS_LAMBDA_RUNTIME_API": f"http://127.0.0.1:{port}{prefix}",
        }

    def parse_request(self):
        if not parse(self):
            return False
        if not same(self.path[: len(prefix) + 1], prefix + "/"):
            self.send_error(403)
            return False
        self.path = self.path[len(prefix) :]
        return True

    lambda_svc._provided_worker_env = environment
    http.server.BaseHTTPRequestHandler.parse_request = parse_request
