variable "name" {
  description = "Name of the cluster."
  type        = string
}

variable "kubernetes_version" {
  description = "Version of Kubernetes."
  type        = string
}

variable "vpc_id" {
  description = "Network of the nodes."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of nodes and pods."
  type        = list(string)
}

variable "public_api_cidrs" {
  description = "Addresses that may reach the Kubernetes API from outside; none: only the network itself."
  type        = list(string)
}

variable "admin_arns" {
  description = "Users and roles of IAM that administer the cluster."
  type        = set(string)
}

variable "deletion_protection" {
  description = "Refuse to delete the cluster."
  type        = bool
}

variable "pool_label" {
  description = "Label and taint by which pods find their nodes."
  type        = string
}

variable "server_nodes" {
  description = "Nodes of servers and cluster services."
  type = object({
    instance_types = list(string)
    capacity_type  = string
    disk_gib       = number
    min            = number
    max            = number
  })
}

variable "worker_nodes" {
  description = "Nodes of workers, and of nothing else."
  type = object({
    instance_types = list(string)
    capacity_type  = string
    disk_gib       = number
    min            = number
    max            = number
  })
}

variable "logs" {
  description = "How long logs are kept, and the key that encrypts them and the cluster's secrets."
  type = object({
    retention_days = number
    key_arn        = string
  })
}
