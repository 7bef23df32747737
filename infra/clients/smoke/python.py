"""The Python client against a stack: it stores a subscription, sends, reads the state, and gets a problem as a typed answer, and what AWS
answers in the API's place as an unexpected status.

`check.py` runs this with the packed client.
"""

import asyncio
import base64
import datetime
import http.server
import secrets
import sys
import threading

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from redial_client import AuthenticatedClient, Client
from redial_client.api.erasures import erase, get_erasure
from redial_client.api.health import health
from redial_client.api.keys import list_keys
from redial_client.api.messages import cancel_message, get_message, list_messages, send_messages
from redial_client.api.subscriptions import delete_subscription, put_subscription
from redial_client.errors import UnexpectedStatus
from redial_client.models import (
    Cancelled,
    Consent,
    Deliveries,
    Delivery,
    Erasure,
    ErasureWish,
    KeptSubscription,
    Message,
    MessageTo,
    Problem,
    PushSubscription,
    PushSubscriptionKeys,
    Taken,
)

URL, KEY = sys.argv[1:]
OPTIONS = {"timeout": httpx.Timeout(30), "raise_on_unexpected_status": True}
client = AuthenticatedClient(base_url=URL, token=KEY, **OPTIONS)
tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)


def base64url(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


assert health.sync(client=Client(base_url=URL)).status == "ok"
assert len(list_keys.sync(client=Client(base_url=URL)).keys) == 1

point = ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
subscription = PushSubscription(
    endpoint="https://updates.push.services.mozilla.com/wpush/v2/smoke-python",
    keys=PushSubscriptionKeys(p256dh=base64url(point), auth=base64url(secrets.token_bytes(16))),
    consent=Consent(at=tomorrow - datetime.timedelta(days=1), prompt_version="1", action="granted", origin="https://shop.example"),
    tags=["smoke"],
)
stored = put_subscription.sync(client=client, id="python", body=subscription)
assert isinstance(stored, KeptSubscription) and stored.state == "active", stored

# Tomorrow, so that nothing is sent from here.
message = Message(to=MessageTo(subscription="python"), id="smoke-python", payload={"title": "smoke"}, deliver_at=tomorrow)
taken = send_messages.sync(client=client, body=message)
assert isinstance(taken, Taken) and (taken.id, taken.duplicate) == ("smoke-python", False), taken
delivery = asyncio.run(get_message.asyncio(client=client, id="smoke-python"))
assert isinstance(delivery, Delivery) and delivery.state in ("queued", "deferred") and not delivery.final, delivery
cancelled = cancel_message.sync(client=client, id="smoke-python")
assert isinstance(cancelled, Cancelled), cancelled
ended = list_messages.sync(client=client, state="cancelled")
assert isinstance(ended, Deliveries), ended
deleted = delete_subscription.sync_detailed(client=client, id="python")
assert deleted.status_code == 204, deleted
erasure = erase.sync(client=client, body=ErasureWish(subscription="python"))
assert isinstance(erasure, Erasure) and erasure.state == "waiting", erasure
erasure = get_erasure.sync(client=client, id=erasure.id)
assert isinstance(erasure, Erasure) and erasure.done_at is None, erasure

rejected = send_messages.sync_detailed(client=client, body=Message(to=MessageTo(subscription="python"), ttl=-1))
assert rejected.status_code == 422, rejected
problem = rejected.parsed
assert isinstance(problem, Problem) and problem.type_ == "urn:redial:problem:invalid", problem
assert problem.errors[0].field == "ttl", problem
several = send_messages.sync(client=client, body=[Message(to=MessageTo(subscription="python"), ttl=-1)])
assert isinstance(several.items[0].problem, Problem), several
refused = get_message.sync(client=AuthenticatedClient(base_url=URL, token="rdk_none_none"), id="x")
assert isinstance(refused, Problem) and refused.type_ == "urn:redial:problem:unauthorized", refused

# What Lambda and API Gateway answer in the API's place.
AWS = {
    403: ("application/json", b'{"Message":"Forbidden"}'),
    429: ("application/json", b'{"message":"Too Many Requests"}'),
    502: ("text/plain", b"Internal Server Error"),
    503: ("application/json", b'{"message":"Service Unavailable"}'),
    504: ("text/html", b""),
}


class InPlaceOfTheApi(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status = int(self.path.rpartition("/")[2])
        content_type, body = AWS[status]
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), InPlaceOfTheApi)
threading.Thread(target=server.serve_forever, daemon=True).start()
aws = AuthenticatedClient(base_url=f"http://127.0.0.1:{server.server_port}", token=KEY, **OPTIONS)
for status in AWS:
    try:
        answer = get_message.sync(client=aws, id=str(status))
    except UnexpectedStatus as error:
        assert error.status_code == status, error
    else:
        raise AssertionError(f"{status} was read as {answer}")

# What a later release adds to a response is read.
later = Delivery.from_dict({**delivery.to_dict(), "state": "napping", "added": 1})
assert later.state == "napping", later
