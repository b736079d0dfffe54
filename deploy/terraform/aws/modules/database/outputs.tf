output "endpoint" {
  description = "HOST:PORT of the instance."
  value       = aws_db_instance.this.endpoint
}

output "admin_secret_arn" {
  description = "Secret of the role jq_admin, kept and rotated by RDS."
  value       = aws_db_instance.this.master_user_secret[0].secret_arn
}

output "role_secret_arns" {
  description = "Secrets of the roles that programs use, by program."
  value       = { for program, secret in aws_secretsmanager_secret.role : program => secret.arn }
}

output "log_groups" {
  description = "Log groups of PostgreSQL."
  value       = [for group in aws_cloudwatch_log_group.this : group.name]
}
