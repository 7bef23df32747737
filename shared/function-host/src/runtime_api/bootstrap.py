#!/usr/bin/env python3
import http.client, json, os, signal, sys, time, urllib.parse
started_ms = int(time.time() * 1000)
api = urllib.parse.urlsplit(os.environ["AWS_LAMBDA_RUNTIME_API"])
base = api.path + "/2018-06-01/runtime"
connection = http.client.HTTPConnection(api.netloc)
def call(method, path, body=None):
    connection.request(method, base + path, body)
    answer = connection.getresponse()
    return answer, answer.read()
if os.environ.get("INIT") == "exit":
    print("FIRST is missing", file=sys.stderr)
    sys.exit(3)
if os.environ.get("INIT") == "error":
    call("POST", "/init/error", json.dumps({"errorMessage": "no configuration", "errorType": "Config"}))
    sys.exit(1)
if os.environ.get("ON_TERM") == "say":
    def end(*_):
        print("asked to end", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
if os.environ.get("ON_TERM") == "stay":
    signal.signal(signal.SIGTERM, lambda *_: print("not yet", flush=True))
if os.environ.get("INIT") == "fill":
    much = b"x" * 200_000_000
    time.sleep(600)
print("ready", flush=True)
while True:
    answer, body = call("GET", "/invocation/next")
    event = json.loads(body)
    name = answer.headers["Lambda-Runtime-Aws-Request-Id"]
    step = event.get("do")
    if step == "exit":
        sys.exit(7)
    if step == "print":
        print("printed", flush=True)
    if step == "fill":
        much = b"x" * 200_000_000
        time.sleep(600)
    if step == "hang":
        print("hanging", flush=True)
        time.sleep(600)
    if step == "fail":
        call("POST", f"/invocation/{name}/error", json.dumps({"errorMessage": "no", "errorType": "E"}))
        continue
    if step == "garbage":
        call("POST", f"/invocation/{name}/response", "no json")
        continue
    result = {"event": event, "pid": os.getpid(), "variable": os.environ.get("VARIABLE"),
              "home": os.environ.get("HOME"), "api": os.environ["AWS_LAMBDA_RUNTIME_API"], "started_ms": started_ms,
              "now_ms": int(time.time() * 1000)}
    result.update({key.lower(): value for key, value in answer.headers.items()})
    if step == "twice":
        wrong, _ = call("POST", "/invocation/other/response", "{}")
        result["wrong"] = wrong.status
    call("POST", f"/invocation/{name}/response", json.dumps(result))
    if step == "answer_and_exit":
        sys.exit(0)
