"""The parameters and outputs of `infra/template.yaml`, for the Terraform module and the CDK construct.

Both deploy the template, and declare its parameters and outputs in a language of their own: `terraform` and `typescript` write these
declarations. They are made when the module and the construct are packed, so that they cannot differ from the template.

A parameter with NoEcho is left out: Terraform would keep it in its state, and the CDK in a template. There is one, VapidPrivateKey, and
VapidSecretId, which stands in for it, is required then.
"""

import json
import re

import template
import yaml

SECRET = {"VapidPrivateKey"}
REQUIRED = {"VapidSecretId"}


class Tags(yaml.SafeLoader):
    """Reads `!Ref` and other tags as their arguments."""


def argument(loader, _suffix, node):
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    return loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else loader.construct_mapping(node)


Tags.add_multi_constructor("!", argument)


def words(name):
    """`SqsMaxDelaySeconds` is ["sqs", "max", "delay", "seconds"]."""
    return [word.lower() for word in re.findall(r"[A-Z][a-z0-9]*", name)]


def snake(name):
    return "_".join(words(name))


def camel(name):
    return name[0].lower() + name[1:]


def read():
    """The parameters, and the outputs."""
    document = yaml.load(template.source(), Tags)
    parameters, outputs = document["Parameters"], document["Outputs"]
    hidden = {name for name, parameter in parameters.items() if parameter.get("NoEcho")}
    assert hidden == SECRET, f"infra/template.yaml: NoEcho parameters are {hidden}, expected {SECRET}"
    kept = {name: parameter for name, parameter in parameters.items() if name not in SECRET}
    for name, parameter in kept.items():
        assert "".join(word.capitalize() for word in words(name)) == name, f"{name}: its words cannot be separated"
        assert parameter["Type"] in ("String", "Number"), f"{name}: type {parameter['Type']}"
        surplus = parameter.keys() - {"Type", "Default", "Description", "AllowedValues", "AllowedPattern", "ConstraintDescription"}
        assert surplus <= {"MinValue", "MaxValue", "MaxLength"}, f"{name}: {surplus}"
        # CloudFormation compares the whole value with a pattern; Terraform and JavaScript look for it anywhere in the value.
        pattern = parameter.get("AllowedPattern", "^$")
        assert pattern.startswith("^") and pattern.endswith("$"), f"{name}: {pattern} has no ^ or no $"
    return kept | {name: required(name, kept[name]) for name in REQUIRED}, outputs


def required(name, parameter):
    """A parameter that may be empty in the template, where it may not."""
    pattern, expected = parameter["AllowedPattern"], parameter["ConstraintDescription"]
    assert pattern.endswith(")?$") and expected.endswith(", or empty"), f"{name}: {pattern}: {expected}"
    return parameter | {"AllowedPattern": pattern[:-2] + "$", "ConstraintDescription": expected.removesuffix(", or empty")}


def has_default(name, parameter):
    return "Default" in parameter and name not in REQUIRED


def accepted(parameter):
    """What a parameter has to be, in a sentence."""
    if "ConstraintDescription" in parameter:
        expected = parameter["ConstraintDescription"]
    elif "AllowedValues" in parameter:
        expected = "one of " + ", ".join(map(str, parameter["AllowedValues"]))
    else:
        expected = f"a number from {parameter['MinValue']} to {parameter['MaxValue']}" if "MinValue" in parameter else "a text"
    return expected + (f", of at most {parameter['MaxLength']} characters" if "MaxLength" in parameter else "")


# ---- Terraform ---------------------------------------------------------------------------------------------------------


def hcl(text):
    """A text, quoted."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def aligned(pairs, indent):
    """Lines `name = value`, as `terraform fmt` aligns them."""
    width = max(len(name) for name, _ in pairs)
    return "".join(f"{indent}{name.ljust(width)} = {value}\n" for name, value in pairs)


def conditions(variable, parameter):
    if "AllowedValues" in parameter:
        yield f"contains({json.dumps(parameter['AllowedValues'])}, {variable})"
    if "AllowedPattern" in parameter:
        yield f"can(regex({hcl(parameter['AllowedPattern'])}, {variable}))"
    if "MinValue" in parameter:
        yield f"{variable} >= {parameter['MinValue']} && {variable} <= {parameter['MaxValue']}"
    if "MaxLength" in parameter:
        yield f"length({variable}) <= {parameter['MaxLength']}"


def variable(name, parameter):
    kind = "number" if parameter["Type"] == "Number" else "string"
    pairs = [("description", hcl(parameter["Description"])), ("type", kind)]
    if has_default(name, parameter):
        value = parameter["Default"]
        pairs.append(("default", str(value) if kind == "number" else hcl(str(value))))
    pairs.append(("nullable", "false"))
    block = f'variable "{snake(name)}" {{\n{aligned(pairs, "  ")}'
    found = " && ".join(conditions(f"var.{snake(name)}", parameter))
    if found:
        lines = [("condition", found), ("error_message", hcl(f"{snake(name)} must be: {accepted(parameter)}."))]
        block += f"\n  validation {{\n{aligned(lines, '    ')}  }}\n"
    return block + "}\n"


def terraform():
    """The files `parameters.tf` and `outputs.tf`."""
    parameters, outputs = read()
    head = "# Made from infra/template.yaml when the module is packed.\n\n"
    values = aligned([(name, f"tostring(var.{snake(name)})") for name in parameters], "    ")
    variables = "\n".join(variable(name, parameter) for name, parameter in parameters.items())
    blocks = [
        f'output "{snake(name)}" {{\n'
        + aligned(
            [
                ("description", hcl(f"{output['Description']}." + (" Null without one." if "Condition" in output else ""))),
                ("value", f"lookup(aws_cloudformation_stack.redial.outputs, {hcl(name)}, null)"),
            ],
            "  ",
        )
        + "}\n"
        for name, output in outputs.items()
    ]
    return {
        "parameters.tf": f"{head}locals {{\n  parameters = {{\n{values}  }}\n}}\n\n{variables}",
        "outputs.tf": head + "\n".join(blocks),
    }


# ---- CDK ---------------------------------------------------------------------------------------------------------------


def typescript():
    """The file `template.ts`."""
    parameters, outputs = read()
    lines = ["// Made from infra/template.yaml when the construct is packed.", ""]
    lines += ["/** The parameters of the template. What is left out has the template's default. */", "export interface RedialParameters {"]
    for name, parameter in parameters.items():
        kind = "number" if parameter["Type"] == "Number" else "string"
        if "AllowedValues" in parameter:
            kind = " | ".join(map(json.dumps, parameter["AllowedValues"]))
        default = f" Default: `{parameter['Default']}`." if has_default(name, parameter) and parameter["Default"] != "" else ""
        lines.append(f"  /** {parameter['Description'].replace('*/', '* /')}{default} */")
        lines.append(f"  readonly {camel(name)}{'?' if has_default(name, parameter) else ''}: {kind};")
    lines += ["}", "", "/** What the template accepts, by the parameter's name. */", "export interface Accepted {"]
    lines += ["  readonly property: keyof RedialParameters;", "  readonly expected: string;", "  readonly values?: readonly (string | number)[];"]
    lines += ["  readonly pattern?: RegExp;", "  readonly min?: number;", "  readonly max?: number;", "  readonly maxLength?: number;", "}", ""]
    lines.append("export const PARAMETERS: { readonly [name: string]: Accepted } = {")
    for name, parameter in parameters.items():
        fields = [f"property: {json.dumps(camel(name))}", f"expected: {json.dumps(accepted(parameter), ensure_ascii=False)}"]
        if "AllowedValues" in parameter:
            fields.append(f"values: {json.dumps(parameter['AllowedValues'])}")
        if "AllowedPattern" in parameter:
            fields.append(f"pattern: new RegExp({json.dumps(parameter['AllowedPattern'])})")
        if "MinValue" in parameter:
            fields.append(f"min: {parameter['MinValue']}, max: {parameter['MaxValue']}")
        if "MaxLength" in parameter:
            fields.append(f"maxLength: {parameter['MaxLength']}")
        lines.append(f"  {name}: {{ {', '.join(fields)} }},")
    lines += ["};", "", "/** The names of the template's outputs, each with what it is. */", "export interface RedialOutputs {"]
    for name, output in outputs.items():
        lines.append(f"  /** {output['Description']}.{' Only where there is one.' if 'Condition' in output else ''} */")
        lines.append(f"  readonly {camel(name)}: string;")
    lines += ["}", "", "export const OUTPUTS: { readonly [property in keyof RedialOutputs]: string } = {"]
    lines += [f"  {camel(name)}: {json.dumps(name)}," for name in outputs]
    return {"template.ts": "\n".join([*lines, "};", ""])}
