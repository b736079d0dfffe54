variable "name" {
  description = "Name of the cluster."
  type        = string
}

variable "vpc_id" {
  description = "Network of the brokers."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the brokers, one for each."
  type        = list(string)
}

variable "clients" {
  description = "Security groups that may connect, by what they are."
  type        = map(string)
}

variable "kafka_version" {
  description = "Version of Kafka, in MSK's words."
  type        = string
}

variable "instance_type" {
  description = "Type of the brokers."
  type        = string
}

variable "storage_gib" {
  description = "Disk of each broker."
  type        = number
}

variable "topic" {
  description = "Partitions of the topic, and hours that events are kept there."
  type = object({
    partitions      = number
    retention_hours = number
  })
}

variable "username" {
  description = "Name by which jq-server logs in."
  type        = string
}

variable "protected" {
  description = "Keep the deleted secret for 30 days."
  type        = bool
}

variable "password_version" {
  description = "Raise it to change the password."
  type        = number
}

variable "key_arn" {
  description = "Key that encrypts disks and secret; MSK wants one of the customer's."
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
