# Redial as a stack of CloudFormation, from the files of a release: the template that `sam deploy` deploys, with the same zips.

locals {
  # Parameters that are keys of files.
  code = {
    DispatchCodeKey   = "functions/dispatch.zip"
    CleanupCodeKey    = "functions/cleanup.zip"
    IngestCodeKey     = "functions/ingest.zip"
    WaitDefinitionKey = "wait.asl.json"
  }

  # A key changes with its file, and so a function is updated when its zip is another.
  keys = {
    for file in concat(values(local.code), ["stack.yaml"]) :
    file => "${var.code_prefix}/${substr(filesha256("${var.release}/${file}"), 0, 16)}/${basename(file)}"
  }
}

data "aws_s3_bucket" "code" {
  bucket = var.bucket
}

resource "aws_s3_object" "code" {
  for_each = local.keys

  bucket = var.bucket
  key    = each.value
  source = "${var.release}/${each.key}"

  # The files of the release before stay until the stack is on this one, because a rollback needs them.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "redial" {
  name         = var.name
  template_url = "https://${data.aws_s3_bucket.code.bucket_regional_domain_name}/${aws_s3_object.code["stack.yaml"].key}"
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  iam_role_arn = var.deployment_role_arn
  tags         = var.tags

  parameters = merge(
    local.parameters,
    { CodeBucket = var.bucket },
    { for parameter, file in local.code : parameter => aws_s3_object.code[file].key },
  )
}
