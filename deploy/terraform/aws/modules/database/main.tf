locals {
  major = split(".", var.engine_version)[0]
}

resource "aws_db_subnet_group" "this" {
  name       = var.name
  subnet_ids = var.subnet_ids
}

resource "aws_security_group" "this" {
  name        = "${var.name}-database"
  description = "PostgreSQL of ${var.name}"
  vpc_id      = var.vpc_id

  tags = { Name = "${var.name}-database" }
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = var.clients

  security_group_id            = aws_security_group.this.id
  description                  = "PostgreSQL from ${each.key} nodes"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
}

# docs/tuning.md and docs/operations.md say why. Slow statements are not logged: PostgreSQL writes
# their parameters beside them, and those are payloads. Performance Insights shows them without.
resource "aws_db_parameter_group" "this" {
  name_prefix = "${var.name}-"
  family      = "postgres${local.major}"
  description = "What jobqueue advises"

  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }

  parameter {
    name         = "max_connections"
    value        = tostring(var.max_connections)
    apply_method = "pending-reboot"
  }

  # So that checkpoints come by time: the first change of a page after one logs all of the page.
  parameter {
    name  = "max_wal_size"
    value = tostring(var.max_wal_size_mb)
  }

  parameter {
    name  = "idle_in_transaction_session_timeout"
    value = tostring(var.idle_in_transaction_timeout_s * 1000)
  }

  parameter {
    name  = "log_lock_waits"
    value = "1"
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudwatch_log_group" "this" {
  for_each = toset(["postgresql", "upgrade"])

  name              = "/aws/rds/instance/${var.name}/${each.key}"
  retention_in_days = var.logs.retention_days
  kms_key_id        = var.logs.key_arn
}

resource "aws_db_instance" "this" {
  identifier     = var.name
  engine         = "postgres"
  engine_version = var.engine_version
  instance_class = var.instance_class
  db_name        = "jobqueue"

  # Nobody of ours uses this role but to make the others; RDS keeps and rotates its password.
  username                      = "jq_admin"
  manage_master_user_password   = true
  master_user_secret_kms_key_id = var.key_arn

  storage_type          = "gp3"
  allocated_storage     = var.storage.initial_gib
  max_allocated_storage = var.storage.limit_gib
  storage_encrypted     = true
  kms_key_id            = var.key_arn

  # The standby has each commit before it is confirmed: a failover loses no accepted job.
  multi_az               = var.multi_az
  db_subnet_group_name   = aws_db_subnet_group.this.name
  vpc_security_group_ids = [aws_security_group.this.id]
  publicly_accessible    = false
  parameter_group_name   = aws_db_parameter_group.this.name

  backup_retention_period   = var.backup_retention_days
  backup_window             = "02:00-03:00"
  maintenance_window        = "sun:03:30-sun:04:30"
  copy_tags_to_snapshot     = true
  delete_automated_backups  = !var.protected
  deletion_protection       = var.protected
  skip_final_snapshot       = !var.protected
  final_snapshot_identifier = var.protected ? "${var.name}-final" : null

  auto_minor_version_upgrade  = true
  allow_major_version_upgrade = false
  apply_immediately           = false

  performance_insights_enabled    = true
  performance_insights_kms_key_id = var.key_arn
  monitoring_interval             = 60
  monitoring_role_arn             = aws_iam_role.monitoring.arn
  enabled_cloudwatch_logs_exports = ["postgresql", "upgrade"]

  depends_on = [aws_cloudwatch_log_group.this]
}
