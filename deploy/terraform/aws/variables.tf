variable "name" {
  description = "Name of the installation: cluster, database, prefix of everything else."
  type        = string
  default     = "jobqueue"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}[a-z0-9]$", var.name))
    error_message = "Small letters, digits and hyphens, 3 to 32 of them, a letter first: RDS and ElastiCache take nothing else."
  }
}

variable "namespace" {
  description = "Namespace of Kubernetes in which servers and workers run."
  type        = string
  default     = "jobqueue"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.namespace))
    error_message = "Not a name that Kubernetes allows."
  }
}

variable "protected" {
  description = "Refuse to delete cluster and database; keep last snapshot, backups and deleted secrets. false is for what may vanish."
  type        = bool
  default     = true
}

variable "network" {
  description = "Addresses, availability zones (2 or 3), a NAT gateway in each zone or one for all, and AWS services to reach without NAT."
  type = object({
    cidr                = optional(string, "10.64.0.0/16")
    zone_count          = optional(number, 3)
    nat_per_zone        = optional(bool, true)
    interface_endpoints = optional(set(string), [])
  })
  default = {}

  validation {
    condition     = can(cidrhost(var.network.cidr, 0)) && can(regex("/(16|17|18|19|20)$", var.network.cidr))
    error_message = "A network of /16 to /20, such as 10.64.0.0/16."
  }
}

variable "kubernetes_version" {
  description = "Version of Kubernetes."
  type        = string
  default     = "1.34"

  validation {
    condition     = can(regex("^1\\.[0-9]{2}$", var.kubernetes_version))
    error_message = "Major and minor version, such as 1.34."
  }
}

variable "admin_arns" {
  description = "Users and roles of IAM that administer the cluster, whoever runs Terraform among them."
  type        = set(string)

  validation {
    condition     = length(var.admin_arns) > 0 && alltrue([for arn in var.admin_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(user|role)/", arn))])
    error_message = "At least one ARN of a user or a role; without one nobody could enter."
  }
}

variable "public_api_cidrs" {
  description = "Addresses from which the Kubernetes API may be reached over the internet; none: only from the network itself."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.public_api_cidrs : can(cidrhost(cidr, 0)) && !endswith(cidr, "/0")])
    error_message = "Networks, and not the whole internet."
  }
}

variable "server_nodes" {
  description = "Nodes of servers and cluster services: types, ON_DEMAND or SPOT, disk in GiB, least and most."
  type = object({
    instance_types = optional(list(string), ["m7i.large"])
    capacity_type  = optional(string, "ON_DEMAND")
    disk_gib       = optional(number, 30)
    min            = optional(number, 3)
    max            = optional(number, 6)
  })
  default = {}

  validation {
    condition     = contains(["ON_DEMAND", "SPOT"], var.server_nodes.capacity_type)
    error_message = "ON_DEMAND or SPOT."
  }

  validation {
    condition     = var.server_nodes.min >= 1 && var.server_nodes.max >= var.server_nodes.min
    error_message = "At least one node, and the most not below the least."
  }
}

variable "worker_nodes" {
  description = "Nodes of workers: types, ON_DEMAND or SPOT, disk in GiB, least (0 is possible) and most."
  type = object({
    instance_types = optional(list(string), ["m7i.xlarge"])
    capacity_type  = optional(string, "ON_DEMAND")
    disk_gib       = optional(number, 50)
    min            = optional(number, 1)
    max            = optional(number, 10)
  })
  default = {}

  validation {
    condition     = contains(["ON_DEMAND", "SPOT"], var.worker_nodes.capacity_type)
    error_message = "ON_DEMAND or SPOT."
  }

  validation {
    condition     = var.worker_nodes.min >= 0 && var.worker_nodes.max >= max(1, var.worker_nodes.min)
    error_message = "At most at least one, and not below the least."
  }
}

variable "fleet" {
  description = "The most servers, their db.pool_size, and the most worker processes that will ever run: what max_connections is made of."
  type = object({
    max_servers          = optional(number, 10)
    pool_size            = optional(number, 10)
    max_worker_processes = optional(number, 40)
  })
  default = {}

  validation {
    condition     = alltrue([for count in values(var.fleet) : count >= 1]) && var.fleet.pool_size >= 3
    error_message = "At least one of each, and pools of three."
  }
}

variable "database" {
  description = "RDS: version of PostgreSQL (15 to 18), class, disk in GiB now and at most, standby in another zone, days of backups, max_wal_size in MB, seconds that a transaction may lie idle."
  type = object({
    engine_version                = optional(string, "18")
    instance_class                = optional(string, "db.m7g.large")
    initial_gib                   = optional(number, 100)
    limit_gib                     = optional(number, 1000)
    multi_az                      = optional(bool, true)
    backup_retention_days         = optional(number, 14)
    max_wal_size_mb               = optional(number, 16384)
    idle_in_transaction_timeout_s = optional(number, 300)
  })
  default = {}

  validation {
    condition     = can(regex("^1[5-8](\\.[0-9]+)?$", var.database.engine_version))
    error_message = "jobqueue runs on PostgreSQL 15 to 18."
  }

  validation {
    condition     = var.database.initial_gib >= 20 && var.database.limit_gib >= var.database.initial_gib * 1.1
    error_message = "At least 20 GiB, and a limit at least a tenth above, or RDS refuses it."
  }

  validation {
    condition     = var.database.max_wal_size_mb <= var.database.initial_gib * 1024 / 4
    error_message = "The write-ahead log may take a quarter of the disk."
  }

  validation {
    condition     = var.database.backup_retention_days >= 1 && var.database.backup_retention_days <= 35
    error_message = "1 to 35 days; without backups there is no way back to a point in time."
  }
}

variable "cache" {
  description = "ElastiCache, for the locks between servers: version of Valkey, type and number of nodes; null: none, and all servers act."
  type = object({
    engine_version = optional(string, "8.0")
    node_type      = optional(string, "cache.t4g.micro")
    nodes          = optional(number, 2)
  })
  default = {}

  validation {
    condition     = var.cache == null ? true : var.cache.nodes >= 1 && var.cache.nodes <= 6
    error_message = "1 to 6 nodes."
  }
}

variable "events" {
  description = "MSK, for the stream of events: version of Kafka, type of brokers and GiB of each, partitions of the topic and hours that it keeps; null: none, and nothing is published."
  type = object({
    kafka_version   = optional(string, "3.9.x.kraft")
    instance_type   = optional(string, "kafka.m7g.large")
    storage_gib     = optional(number, 100)
    partitions      = optional(number, 12)
    retention_hours = optional(number, 168)
  })
  default = {}

  validation {
    condition     = var.events == null ? true : var.events.partitions >= 1 && var.events.retention_hours >= 1
    error_message = "At least one partition and one hour."
  }
}

variable "handler_policy_arns" {
  description = "What handlers may do in AWS: policies of IAM, by a name of your choice, for the role of the workers."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for arn in values(var.handler_policy_arns) : can(regex("^arn:[a-z-]+:iam::", arn))])
    error_message = "ARNs of policies."
  }
}

variable "kept_images" {
  description = "Images kept in each repository, newest first."
  type        = number
  default     = 50

  validation {
    condition     = var.kept_images >= 5
    error_message = "Keep at least five: a rollback wants the one before."
  }
}

variable "log_retention_days" {
  description = "Days that CloudWatch keeps logs."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch allows 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365 and some more."
  }
}

variable "alarm_topic_arns" {
  description = "SNS topics that hear of a disk or a list of connections that fills up."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.alarm_topic_arns : can(regex("^arn:[a-z-]+:sns:", arn))])
    error_message = "ARNs of SNS topics."
  }
}

variable "password_version" {
  description = "Raise it to change all passwords that Terraform makes; README.md says how without an outage."
  type        = number
  default     = 1

  validation {
    condition     = var.password_version >= 1 && floor(var.password_version) == var.password_version
    error_message = "1, 2, 3 …"
  }
}
