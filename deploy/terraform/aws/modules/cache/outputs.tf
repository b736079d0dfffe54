output "addr" {
  description = "HOST:PORT of the primary, for JQ_REDIS_ADDR."
  value       = "${aws_elasticache_replication_group.this.primary_endpoint_address}:6379"
}

output "secret_arn" {
  description = "Secret with JQ_REDIS_PASSWORD."
  value       = aws_secretsmanager_secret.token.arn
}
