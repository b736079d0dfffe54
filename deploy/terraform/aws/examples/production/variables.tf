variable "region" {
  description = "Region of AWS."
  type        = string
  default     = "eu-central-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "Not a region, such as eu-central-1."
  }
}

variable "admin_arns" {
  description = "Users and roles of IAM that administer the cluster, whoever runs Terraform among them."
  type        = set(string)

  validation {
    condition     = length(var.admin_arns) > 0
    error_message = "At least one, or nobody could enter."
  }
}

variable "public_api_cidrs" {
  description = "Addresses from which the Kubernetes API may be reached over the internet."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.public_api_cidrs : !endswith(cidr, "/0")])
    error_message = "Not the whole internet."
  }
}

variable "alarm_topic_arns" {
  description = "SNS topics that hear of alarms."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.alarm_topic_arns : startswith(arn, "arn:")])
    error_message = "ARNs of SNS topics."
  }
}
