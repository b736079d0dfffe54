ephemeral "random_password" "server" {
  length  = 40
  special = false
}

# MSK takes only secrets of this prefix, under a key of the customer's.
resource "aws_secretsmanager_secret" "server" {
  name                    = "AmazonMSK_${var.name}/server"
  description             = "Kafka login of jq-server: username and password"
  kms_key_id              = var.key_arn
  recovery_window_in_days = var.protected ? 30 : 0
}

resource "aws_secretsmanager_secret_version" "server" {
  secret_id = aws_secretsmanager_secret.server.id
  secret_string_wo = jsonencode({
    username = var.username
    password = ephemeral.random_password.server.result
  })
  secret_string_wo_version = var.password_version
}

data "aws_iam_policy_document" "brokers" {
  statement {
    sid       = "Brokers"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [aws_secretsmanager_secret.server.arn]

    principals {
      type        = "Service"
      identifiers = ["kafka.amazonaws.com"]
    }
  }
}

resource "aws_secretsmanager_secret_policy" "server" {
  secret_arn = aws_secretsmanager_secret.server.arn
  policy     = data.aws_iam_policy_document.brokers.json
}

resource "aws_msk_single_scram_secret_association" "server" {
  cluster_arn = aws_msk_cluster.this.arn
  secret_arn  = aws_secretsmanager_secret.server.arn

  depends_on = [
    aws_secretsmanager_secret_policy.server,
    aws_secretsmanager_secret_version.server,
  ]
}
