# Passwords of the two roles that programs use. They are made while Terraform runs and written to
# Secrets Manager: neither the plan nor the state has them.
locals {
  roles = {
    server = "jq_user"
    worker = "jq_worker"
  }
}

ephemeral "random_password" "role" {
  for_each = local.roles

  length  = 40
  special = false # it becomes part of a URL
}

resource "aws_secretsmanager_secret" "role" {
  for_each = local.roles

  name                    = "${var.name}/database/${each.key}"
  description             = "PostgreSQL role ${each.value}: username, password, JQ_DB_URL"
  kms_key_id              = var.key_arn
  recovery_window_in_days = var.protected ? 30 : 0
}

resource "aws_secretsmanager_secret_version" "role" {
  for_each = local.roles

  secret_id = aws_secretsmanager_secret.role[each.key].id
  secret_string_wo = jsonencode({
    username  = each.value
    password  = ephemeral.random_password.role[each.key].result
    JQ_DB_URL = "postgresql://${each.value}:${ephemeral.random_password.role[each.key].result}@${aws_db_instance.this.endpoint}/${aws_db_instance.this.db_name}"
  })
  # Another number writes new passwords.
  secret_string_wo_version = var.password_version
}
