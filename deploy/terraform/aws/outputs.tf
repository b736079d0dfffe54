locals {
  kafka_username = "jq-server"

  # Workers and the migration have no password of Kafka, and refuse its other settings without it.
  shared_settings = {
    JQ_ENV        = "production"
    JQ_DB_SSLMODE = "require"
  }
  pool_settings = {
    JQ_DB_POOL_SIZE = tostring(var.fleet.pool_size)
  }
  cache_settings = var.cache == null ? {} : {
    JQ_REDIS_ADDR = module.cache[0].addr
    JQ_REDIS_TLS  = "true"
  }
  events_settings = var.events == null ? {} : {
    JQ_KAFKA_BROKERS           = module.events[0].brokers
    JQ_KAFKA_SECURITY_PROTOCOL = "SASL_SSL"
    JQ_KAFKA_SASL_MECHANISM    = "SCRAM-SHA-512"
    JQ_KAFKA_SASL_USERNAME     = local.kafka_username
  }
}

output "cluster_name" {
  description = "For aws eks update-kubeconfig --name."
  value       = module.cluster.name
}

output "repository_urls" {
  description = "Where to push images, by repository."
  value       = module.registry.urls
}

output "settings" {
  description = "Settings that are no secrets, by ConfigMap: jq-config is for all programs, jq-server-config for servers alone."
  value = {
    "jq-config"        = local.shared_settings
    "jq-server-config" = merge(local.pool_settings, local.cache_settings, local.events_settings)
  }
}

output "secret_arns" {
  description = "Secrets: admin (username, password of PostgreSQL's administrator), server and worker (username, password, JQ_DB_URL), cache (JQ_REDIS_PASSWORD), events (username, password)."
  value = merge(
    { admin = module.database.admin_secret_arn },
    module.database.role_secret_arns,
    { for arn in module.cache[*].secret_arn : "cache" => arn },
    { for arn in module.events[*].secret_arn : "events" => arn },
  )
}

output "database_endpoint" {
  description = "HOST:PORT of PostgreSQL; the database is jobqueue."
  value       = module.database.endpoint
}

output "max_connections" {
  description = "Connections that PostgreSQL was given for the fleet."
  value       = local.connections
}

output "role_arns" {
  description = "Roles of IAM, by service account: for the annotation eks.amazonaws.com/role-arn."
  value = {
    "jq-server"          = module.server_identity.role_arn
    "jq-worker"          = module.worker_identity.role_arn
    "cluster-autoscaler" = module.cluster.autoscaler_role_arn
  }
}

output "pool_label" {
  description = "Label of nodes, with the values server and worker; nodes of workers have it as a taint too."
  value       = local.pool_label
}

output "log_groups" {
  description = "Log groups of CloudWatch."
  value       = concat(module.cluster.log_groups, module.database.log_groups, module.events[*].log_group)
}
