resource "aws_elasticache_subnet_group" "this" {
  name       = var.name
  subnet_ids = var.subnet_ids
}

resource "aws_security_group" "this" {
  name        = "${var.name}-cache"
  description = "Valkey of ${var.name}"
  vpc_id      = var.vpc_id

  tags = { Name = "${var.name}-cache" }
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = var.clients

  security_group_id            = aws_security_group.this.id
  description                  = "Valkey from ${each.key} nodes"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 6379
  to_port                      = 6379
}

# ElastiCache has no write-only argument for it, so this one is in the state. It opens a cache that
# holds two locks, to nodes of servers only.
resource "random_password" "token" {
  length  = 40
  special = false
  keepers = { version = var.password_version }
}

# Cluster mode stays off: jobqueue speaks to one primary, behind a name that follows it. Nothing
# has to survive a restart, so there are no snapshots.
resource "aws_elasticache_replication_group" "this" {
  replication_group_id = var.name
  description          = "Locks of the servers of ${var.name}"
  engine               = "valkey"
  engine_version       = var.engine_version
  node_type            = var.node_type
  port                 = 6379

  num_cache_clusters         = var.nodes
  automatic_failover_enabled = var.nodes > 1
  multi_az_enabled           = var.nodes > 1
  snapshot_retention_limit   = 0

  subnet_group_name  = aws_elasticache_subnet_group.this.name
  security_group_ids = [aws_security_group.this.id]

  transit_encryption_enabled = true
  at_rest_encryption_enabled = true
  kms_key_id                 = var.key_arn
  auth_token                 = random_password.token.result
  auth_token_update_strategy = "ROTATE" # the old one is good until the next rotation

  auto_minor_version_upgrade = true
  maintenance_window         = "sun:05:00-sun:06:00"
}

resource "aws_secretsmanager_secret" "token" {
  name                    = "${var.name}/cache"
  description             = "Valkey: JQ_REDIS_PASSWORD"
  kms_key_id              = var.key_arn
  recovery_window_in_days = var.protected ? 30 : 0
}

resource "aws_secretsmanager_secret_version" "token" {
  secret_id                = aws_secretsmanager_secret.token.id
  secret_string_wo         = jsonencode({ JQ_REDIS_PASSWORD = random_password.token.result })
  secret_string_wo_version = var.password_version
}
