// Redial as a nested stack, from the files of a release: the template that `sam deploy` deploys, with the same zips.
//
// The template is not included into the stack around it, so that CloudFormation sees what was released: its parameters, with what they
// accept, its rules and its conditions.

import { existsSync } from "node:fs";
import { join } from "node:path";

import { CfnStack, Fn, Token } from "aws-cdk-lib";
import { Asset } from "aws-cdk-lib/aws-s3-assets";
import { Construct } from "constructs";

import { OUTPUTS, PARAMETERS, type Accepted, type RedialOutputs, type RedialParameters } from "./template.js";

export { OUTPUTS, PARAMETERS, type Accepted, type RedialOutputs, type RedialParameters } from "./template.js";

export interface RedialProps extends RedialParameters {
  /** Folder of an unpacked release for the functions' architecture: the one that has `stack.yaml`. */
  readonly release: string;
}

// Parameters that are keys of files.
const CODE = {
  DispatchCodeKey: "functions/dispatch.zip",
  CleanupCodeKey: "functions/cleanup.zip",
  IngestCodeKey: "functions/ingest.zip",
  WaitDefinitionKey: "wait.asl.json",
};

export class Redial extends Construct {
  /** The nested stack. */
  readonly stack: CfnStack;
  /** The name of the nested stack, which `redial --stack` takes. */
  readonly stackName: string;
  /** The outputs of the nested stack. What is used has to exist: `apiUrl` not with `apiKind: "None"`, for instance. */
  readonly outputs: RedialOutputs;

  constructor(scope: Construct, id: string, props: RedialProps) {
    super(scope, id);
    const { release } = props;
    if (!existsSync(join(release, "stack.yaml"))) {
      throw new Error(
        `release: ${release} has no stack.yaml, expected an unpacked redial-VERSION-x86_64.tar.gz or redial-VERSION-arm64.tar.gz`,
      );
    }
    const parameters: { [name: string]: string } = {};
    for (const [name, accepted] of Object.entries(PARAMETERS)) {
      const value = props[accepted.property];
      if (value !== undefined) {
        parameters[name] = checked(accepted, value);
      }
    }
    for (const [name, file] of Object.entries(CODE)) {
      const asset = new Asset(this, name.replace(/Key$/, ""), { path: join(release, file) });
      parameters[name] = asset.s3ObjectKey;
      parameters["CodeBucket"] = asset.s3BucketName;
    }
    const template = new Asset(this, "Template", { path: join(release, "stack.yaml") });
    this.stack = new CfnStack(this, "Stack", { templateUrl: template.httpUrl, parameters });
    // arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/NAME/ID
    this.stackName = Fn.select(1, Fn.split("/", this.stack.ref));
    const values = Object.entries(OUTPUTS).map(([property, name]) => [
      property,
      { enumerable: true, get: () => this.stack.getAtt(`Outputs.${name}`).toString() },
    ]);
    this.outputs = Object.defineProperties({}, Object.fromEntries(values)) as RedialOutputs;
  }
}

// The template refuses the same when it is deployed; here it costs no deployment.
function checked(accepted: Accepted, value: string | number): string {
  const { property, expected, values, pattern, min, max, maxLength } = accepted;
  if (Token.isUnresolved(value)) {
    return Token.asString(value);
  }
  const text = String(value);
  const fits =
    (!values || values.includes(value)) &&
    (!pattern || pattern.test(text)) &&
    (min === undefined || Number(value) >= min) &&
    (max === undefined || Number(value) <= max) &&
    (maxLength === undefined || text.length <= maxLength);
  if (!fits) {
    throw new Error(`${property}: expected ${expected}, found ${JSON.stringify(value)}`);
  }
  return text;
}
