variable "name" {
  description = "Name of the replication group."
  type        = string
}

variable "vpc_id" {
  description = "Network of the cache."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of its nodes."
  type        = list(string)
}

variable "clients" {
  description = "Security groups that may connect, by what they are."
  type        = map(string)
}

variable "engine_version" {
  description = "Version of Valkey."
  type        = string
}

variable "node_type" {
  description = "Type of the nodes. The smallest does: there are two small keys."
  type        = string
}

variable "nodes" {
  description = "Nodes, the primary included; from two on one takes over for another."
  type        = number
}

variable "protected" {
  description = "Keep the deleted secret for 30 days."
  type        = bool
}

variable "password_version" {
  description = "Raise it to change the token."
  type        = number
}

variable "key_arn" {
  description = "Key that encrypts the cache and its secret."
  type        = string
}
