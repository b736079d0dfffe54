variable "name" {
  description = "Name of the role."
  type        = string
}

variable "oidc" {
  description = "The cluster's issuer of tokens: ARN of its provider, and its address without https://."
  type = object({
    provider_arn = string
    issuer       = string
  })
}

variable "namespace" {
  description = "Namespace of the service account."
  type        = string
}

variable "service_account" {
  description = "The only service account that may take this role."
  type        = string
}

variable "policies" {
  description = "What the role may do, as JSON, by name."
  type        = map(string)
  default     = {}
}

variable "managed_policy_arns" {
  description = "Policies kept elsewhere, by a name of your choice."
  type        = map(string)
  default     = {}
}
