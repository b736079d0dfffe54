variable "name" {
  description = "Identifier of the instance."
  type        = string
}

variable "vpc_id" {
  description = "Network of the instance."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the instance and its standby."
  type        = list(string)
}

variable "clients" {
  description = "Security groups that may connect, by what they are."
  type        = map(string)
}

variable "engine_version" {
  description = "Version of PostgreSQL, major or with the minor."
  type        = string
}

variable "instance_class" {
  description = "Class of the instance."
  type        = string
}

variable "storage" {
  description = "GiB to begin with, and to grow to by itself."
  type = object({
    initial_gib = number
    limit_gib   = number
  })
}

variable "multi_az" {
  description = "Keep a synchronous standby in another zone."
  type        = bool
}

variable "protected" {
  description = "Refuse to delete the instance, and keep a last snapshot and the backups."
  type        = bool
}

variable "backup_retention_days" {
  description = "Days to which the database can be restored, to the second."
  type        = number
}

variable "max_connections" {
  description = "Connections that PostgreSQL takes."
  type        = number
}

variable "max_wal_size_mb" {
  description = "Write-ahead log after which a checkpoint comes before its time, in MB."
  type        = number
}

variable "idle_in_transaction_timeout_s" {
  description = "Seconds after which a session is ended that leaves a transaction open."
  type        = number
}

variable "password_version" {
  description = "Raise it to write new passwords of the roles to their secrets."
  type        = number
}

variable "key_arn" {
  description = "Key that encrypts storage, backups and secrets."
  type        = string
}

variable "logs" {
  description = "How long logs are kept, and the key that encrypts them."
  type = object({
    retention_days = number
    key_arn        = string
  })
}

variable "alarm_topic_arns" {
  description = "SNS topics that hear of alarms."
  type        = list(string)
}
