variable "name" {
  description = "Prefix of every name."
  type        = string
}

variable "cidr" {
  description = "Addresses of the network."
  type        = string
}

variable "zone_count" {
  description = "Availability zones to spread over."
  type        = number

  validation {
    condition     = contains([2, 3], var.zone_count)
    error_message = "RDS and EKS need two zones; the address plan has room for three."
  }
}

variable "nat_per_zone" {
  description = "A NAT gateway in each zone, so that none depends on another's; false: one for all."
  type        = bool
}

variable "interface_endpoints" {
  description = "AWS services to reach without the NAT gateway, such as ecr.api or sts."
  type        = set(string)
}
