output "brokers" {
  description = "Addresses to begin with, for JQ_KAFKA_BROKERS."
  value       = aws_msk_cluster.this.bootstrap_brokers_sasl_scram
}

output "secret_arn" {
  description = "Secret with the server's username and password."
  value       = aws_secretsmanager_secret.server.arn
}

output "log_group" {
  description = "Log group of the brokers."
  value       = aws_cloudwatch_log_group.this.name
}
