"""The templates of a release, made from `infra/template.yaml`.

- `for_sam` is for `sam deploy`: each function's code is a zip beside the template, built for the architecture that the template names.
- `for_s3` is for CloudFormation itself, which the Terraform module and the CDK construct call: the same, but that bucket and keys of
  the code are parameters.

The text is edited and not parsed, so that comments and short forms stay. Each edit says how often it has to apply: if the template
changes its form, the release fails, and not the deployment.
"""

import pathlib
import re

INFRA = pathlib.Path(__file__).resolve().parents[1]
ARCHITECTURES = ("x86_64", "arm64")
FUNCTIONS = ["dispatch", "cleanup", "ingest"]
WAIT = "wait.asl.json"
# The parameters of `for_s3` that `for_sam` does not have, by the file that each is the key of.
BUCKET = "CodeBucket"
KEYS = {
    "functions/dispatch.zip": "DispatchCodeKey",
    "functions/cleanup.zip": "CleanupCodeKey",
    "functions/ingest.zip": "IngestCodeKey",
    WAIT: "WaitDefinitionKey",
}


def edited(text, pattern, replacement, times):
    text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    assert count == times, f"infra/template.yaml: {pattern!r} applies {count} times, expected {times}"
    return text


def source():
    return (INFRA / "template.yaml").read_text()


def common(architecture):
    text = edited(source(), r"^    # No parameter: what `sam build` .*\n", "    # What the zips of this release are built for.\n", 1)
    text = edited(text, r"^    Architectures: \[x86_64\]$", f"    Architectures: [{architecture}]", 1)
    build = r"^    Metadata:\n      BuildMethod: rust-cargolambda\n      BuildProperties: \{ Binary: [a-z]+ \}\n"
    return edited(text, build, "", len(FUNCTIONS))


def for_sam(architecture):
    text = common(architecture)
    for function in FUNCTIONS:
        text = edited(text, rf"^      CodeUri: \.\./functions/{function}$", f"      CodeUri: functions/{function}.zip", 1)
    return text


def for_s3(architecture):
    text = common(architecture)
    for function in FUNCTIONS:
        place = f"{{ Bucket: !Ref {BUCKET}, Key: !Ref {KEYS[f'functions/{function}.zip']} }}"
        text = edited(text, rf"^      CodeUri: \.\./functions/{function}$", f"      CodeUri: {place}", 1)
    place = f"{{ Bucket: !Ref {BUCKET}, Key: !Ref {KEYS[WAIT]} }}"
    text = edited(text, rf"^      DefinitionUri: {re.escape(WAIT)}$", f"      DefinitionUri: {place}", 1)
    parameters = f"  {BUCKET}:\n    Type: String\n    Description: A bucket of this region that has the files of this release.\n"
    for file, key in KEYS.items():
        parameters += f"  {key}:\n    Type: String\n    Description: Key of {file} in it.\n"
    return edited(text, r"^Parameters:\n", "Parameters:\n" + parameters, 1)
