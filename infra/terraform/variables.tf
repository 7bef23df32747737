# What is of the module itself. The template's parameters are in parameters.tf.

variable "release" {
  description = "Folder of an unpacked release for the functions' architecture: the one that has stack.yaml."
  type        = string
  nullable    = false

  validation {
    condition     = fileexists("${var.release}/stack.yaml")
    error_message = "release must be a folder with stack.yaml: unpack redial-VERSION-x86_64.tar.gz or redial-VERSION-arm64.tar.gz."
  }
}

variable "bucket" {
  description = "Bucket in the region of the stack for the functions' code. What is there under code_prefix belongs to this module."
  type        = string
  nullable    = false
}

variable "code_prefix" {
  description = "Where the code is in the bucket."
  type        = string
  default     = "redial"
  nullable    = false
}

variable "name" {
  description = "Name of the stack in CloudFormation, which `redial --stack` takes."
  type        = string
  default     = "redial"
  nullable    = false
}

variable "tags" {
  description = "Tags of the stack and of its resources."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "deployment_role_arn" {
  description = "Role that CloudFormation assumes for the deployment. Without it, it acts as whoever runs Terraform."
  type        = string
  default     = null
}
