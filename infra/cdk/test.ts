// The construct, synthesized: what it deploys is the release, with the parameters that were given.
// `infra/release/check.py` compiles this against the packed construct and runs it with the folder of a release.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { App, CfnOutput, Stack } from "aws-cdk-lib";
import { Template } from "aws-cdk-lib/assertions";
import { OUTPUTS, PARAMETERS, Redial, type RedialProps } from "redial-cdk";

const release = process.env["RELEASE"] ?? "";
const needed = { release, vapidSubject: "mailto:push@shop.example", vapidSecretId: "redial/vapid" };

function synthesized(props: RedialProps) {
  const app = new App();
  const stack = new Stack(app, "Notifications");
  const redial = new Redial(stack, "Redial", props);
  new CfnOutput(stack, "Api", { value: redial.outputs.apiUrl });
  new CfnOutput(stack, "Name", { value: redial.stackName });
  return { assembly: app.synth(), template: Template.fromStack(stack), stack };
}

test("the nested stack has the parameters that were given and the keys of the code", () => {
  const { template } = synthesized({ ...needed, apiKind: "HttpApi", memorySize: 512, logRetentionDays: 30 });
  const stacks = Object.values(template.findResources("AWS::CloudFormation::Stack"));
  assert.equal(stacks.length, 1);
  const { CodeBucket, ...rest } = stacks[0]?.["Properties"].Parameters;
  assert.ok(CodeBucket);
  assert.equal(rest.ApiKind, "HttpApi");
  assert.equal(rest.MemorySize, "512");
  assert.equal(rest.VapidSecretId, "redial/vapid");
  const keys = ["CleanupCodeKey", "DispatchCodeKey", "IngestCodeKey", "WaitDefinitionKey"];
  const given = ["ApiKind", "LogRetentionDays", "MemorySize", "VapidSecretId", "VapidSubject"];
  assert.deepEqual(Object.keys(rest).sort(), [...keys, ...given].sort());
  assert.match(JSON.stringify(template.findOutputs("Api")), /"Outputs.ApiUrl"/);
});

test("the assets are the files of the release", () => {
  const { assembly, stack } = synthesized(needed);
  const assets = JSON.parse(readFileSync(join(assembly.directory, `${stack.artifactId}.assets.json`), "utf8"));
  const sources: { path: string }[] = Object.values<{ source: { path: string } }>(assets.files).map(({ source }) => source);
  const contents = sources.map(({ path }) => readFileSync(join(assembly.directory, path)).toString("base64"));
  for (const file of ["stack.yaml", "wait.asl.json", "functions/dispatch.zip", "functions/cleanup.zip", "functions/ingest.zip"]) {
    assert.ok(contents.includes(readFileSync(join(release, file)).toString("base64")), file);
  }
});

test("what the template refuses is refused before a deployment", () => {
  const refused: [Partial<RedialProps>, RegExp][] = [
    [{ vapidSubject: "push@shop.example" }, /^Error: vapidSubject: expected a mailto address or an https address, found "push@/],
    [{ vapidSecretId: "" }, /^Error: vapidSecretId: expected the name of a secret or its full ARN, .*, found ""$/],
    [{ defaultTimeZone: "Europe/Berlin!" }, /^Error: defaultTimeZone: expected an IANA time zone, .*, found "Europe\/Berlin!"$/],
    [{ functionTimeout: 900 }, /^Error: functionTimeout: expected a number from 25 to 120, found 900$/],
    [{ apiKind: "Gateway" as "None" }, /^Error: apiKind: expected one of FunctionUrl, HttpApi, None, found "Gateway"$/],
    [{ release: "/nowhere" }, /^Error: release: \/nowhere has no stack.yaml/],
  ];
  for (const [props, message] of refused) {
    assert.throws(() => synthesized({ ...needed, ...props }), message);
  }
});

test("every parameter and output of the template has a property, but for the private key", () => {
  const text = readFileSync(join(release, "stack.yaml"), "utf8");
  const names = (section: string) => {
    const body = text.split(`\n${section}:\n`)[1]?.split(/\n(?=\S)/)[0] ?? "";
    return [...body.matchAll(/^ {2}(\w+):$/gm)].map((match) => match[1]);
  };
  const own = ["CodeBucket", "DispatchCodeKey", "CleanupCodeKey", "IngestCodeKey", "WaitDefinitionKey", "VapidPrivateKey"];
  assert.deepEqual(Object.keys(PARAMETERS).sort(), names("Parameters").filter((name) => !own.includes(name ?? "")).sort());
  assert.deepEqual(Object.values(OUTPUTS).sort(), names("Outputs").sort());
});
