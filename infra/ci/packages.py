"""Checks that what SAM would deploy starts.

Both ways to build of infra/docs/deploy.md have built the functions before, and a bundle was packed as for a release. For each, `sam
package` makes or takes the zips, as `sam deploy` does before it hands them to CloudFormation, and uploads them to the S3 of a local
stack. Then, for each function:

- The zip holds an executable `bootstrap` and nothing else.
- Alone behind a Runtime API, with an empty environment, it exits with one message that lists what is missing.
- As a function of the stack, with the template's environment, it answers an event without records, or a health check.

The emulator's CloudFormation does not accept the whole template (see the module on its differences), so
the deployment itself is that of `redial local up`. It makes a change set, which `sam deploy` is run for in the bundle's folder.

Arguments: the file that `redial local up --json` wrote, a folder for the zips, and the template of the bundle. The environment is
that of `redial local env`.
"""

import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import threading
import zipfile

import boto3
import yaml

REGION = "us-east-1"
BUCKET = "redial-packages"
# The built template of each way to build, as samconfig.toml names it for `sam deploy`.
FLOWS = {
    "sam build": ".aws-sam/build/template.yaml",
    "cargo lambda build": "infra/prebuilt/infra/template.yaml",
}
FUNCTIONS = {"DispatchFunction": "dispatch", "CleanupFunction": "cleanup", "IngestFunction": "ingest"}
# What a function URL sends.
HEALTH = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/v1/health",
    "rawQueryString": "",
    "headers": {"host": "localhost"},
    "requestContext": {
        "http": {"method": "GET", "path": "/v1/health", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "ci"},
        "requestId": "1",
        "stage": "$default",
        "timeEpoch": 1800000000000,
    },
    "isBase64Encoded": False,
}


class Tags(yaml.SafeLoader):
    """Reads `!Ref` and other tags as their arguments."""


def construct_tag(loader, _suffix, node):
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node)
    return loader.construct_mapping(node)


Tags.add_multi_constructor("!", construct_tag)


class RuntimeApi(http.server.BaseHTTPRequestHandler):
    """Records what a function reports about its start, and returns no event."""

    requests = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.requests.append((self.path, body.decode()))
        self.send_response(202)
        self.end_headers()

    def do_GET(self):
        self.requests.append((self.path, ""))
        self.send_response(410)
        self.end_headers()

    def log_message(self, *_):
        pass


def package(flow, template, folder, environment):
    """The zips of a flow, by function."""
    output = folder / f"{flow.replace(' ', '-')}.yaml"
    command = ["sam", "package", "--template-file", template, "--s3-bucket", BUCKET]
    command += ["--s3-prefix", flow.replace(" ", "-"), "--output-template-file", str(output), "--region", REGION]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, f"{flow}: sam package ended with {done.returncode}: {done.stdout}"
    resources = yaml.load(output.read_text(), Tags)["Resources"]
    return {name: resources[name]["Properties"]["CodeUri"] for name in FUNCTIONS}


def unpack(content, label):
    """The zip's bootstrap."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    names = archive.namelist()
    assert names == ["bootstrap"], f"{label}: the zip holds {names}"
    mode = archive.getinfo("bootstrap").external_attr >> 16
    assert mode & 0o555 == 0o555, f"{label}: bootstrap has mode {mode:o}"
    return archive.read("bootstrap")


def lacks_configuration(bootstrap, label):
    """Starts it with an empty environment."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RuntimeApi)
    RuntimeApi.requests.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_port}"}
    done = subprocess.run(
        [bootstrap], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
    )
    server.shutdown()
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert done.returncode > 0, f"{label}: ended with {done.returncode}"
    assert len(lines) == 1, f"{label}: {len(lines)} messages: {lines}"
    for variable in ["INGEST_QUEUE_URL", "DELIVERIES_TABLE", "WAIT_STATE_MACHINE_ARN", "ENDPOINT_HASH_KEY"]:
        if variable != "WAIT_STATE_MACHINE_ARN" or "dispatch" in label:
            assert variable in lines[0], f"{label}: {variable} is not named: {lines[0]}"
    assert all(not path.endswith("/next") for path, _ in RuntimeApi.requests), f"{label}: it requested an event"


def answers(lambda_client, function, key, label):
    """Puts it into the stack and calls it."""
    lambda_client.update_function_code(FunctionName=function, S3Bucket=BUCKET, S3Key=key)
    event = HEALTH if "ingest" in label else {"Records": []}
    answer = lambda_client.invoke(FunctionName=function, Payload=json.dumps(event).encode())
    payload = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, f"{label}: {payload}"
    if "ingest" in label:
        assert (payload["statusCode"], json.loads(payload["body"])["status"]) == (200, "ok"), f"{label}: answered {payload}"
    else:
        assert payload == {"batchItemFailures": []}, f"{label}: answered {payload}"


def change_set(folder, environment):
    """Deploys the bundle as its page says, up to the change set, which no one carries out."""
    command = ["sam", "deploy", "--no-resolve-s3", "--s3-bucket", BUCKET, "--no-confirm-changeset", "--no-execute-changeset"]
    command += ["--parameter-overrides", "VapidSubject=mailto:push@shop.example", "VapidSecretId=redial/vapid"]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, f"sam deploy of the release ended with {done.returncode}: {done.stdout}"
    added = [line for line in done.stdout.splitlines() if line.startswith("+ Add")]
    assert "Changeset created successfully" in done.stdout and len(added) > len(FUNCTIONS), done.stdout
    return len(added)


def main():
    stack = json.loads(pathlib.Path(sys.argv[1]).read_text().splitlines()[-1])
    folder = pathlib.Path(sys.argv[2])
    s3, lambda_client = boto3.client("s3"), boto3.client("lambda")
    s3.create_bucket(Bucket=BUCKET)
    for flow, template in {**FLOWS, "release": sys.argv[3]}.items():
        for resource, uri in package(flow, template, folder, dict(os.environ)).items():
            label = f"{FUNCTIONS[resource]} of {flow}"
            key = uri.removeprefix(f"s3://{BUCKET}/")
            content = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            bootstrap = folder / f"bootstrap-{FUNCTIONS[resource]}"
            bootstrap.unlink(missing_ok=True)
            bootstrap.write_bytes(unpack(content, label))
            bootstrap.chmod(0o755)
            lacks_configuration(bootstrap, label)
            answers(lambda_client, stack["functions"][FUNCTIONS[resource]], key, label)
            print(f"{label}: {len(content) / 1e6:.1f} MB zipped, {bootstrap.stat().st_size / 1e6:.1f} MB; it starts and answers")
    count = change_set(pathlib.Path(sys.argv[3]).parent, dict(os.environ))
    print(f"sam deploy in the release's folder makes a change set of {count} resources, without a build")


if __name__ == "__main__":
    main()
