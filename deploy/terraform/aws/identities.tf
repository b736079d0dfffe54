# Each program reads its own secrets and no other's.
locals {
  secrets = {
    server = concat(
      [module.database.role_secret_arns["server"]],
      module.cache[*].secret_arn,
      module.events[*].secret_arn,
    )
    worker = [module.database.role_secret_arns["worker"]]
  }
}

data "aws_iam_policy_document" "secrets" {
  for_each = local.secrets

  statement {
    sid       = "Read"
    actions   = ["secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"]
    resources = each.value
  }

  statement {
    sid       = "Decrypt"
    actions   = ["kms:Decrypt"]
    resources = [module.encryption.key_arn]

    # The key also opens disks and logs: through Secrets Manager it opens secrets only.
    condition {
      test     = "StringLike"
      variable = "kms:ViaService"
      values   = ["secretsmanager.*.amazonaws.com"]
    }
  }
}

module "server_identity" {
  source = "./modules/identity"

  name            = "${var.name}-server"
  oidc            = module.cluster.oidc
  namespace       = var.namespace
  service_account = "jq-server"
  policies        = { secrets = data.aws_iam_policy_document.secrets["server"].json }
}

module "worker_identity" {
  source = "./modules/identity"

  name                = "${var.name}-worker"
  oidc                = module.cluster.oidc
  namespace           = var.namespace
  service_account     = "jq-worker"
  policies            = { secrets = data.aws_iam_policy_document.secrets["worker"].json }
  managed_policy_arns = var.handler_policy_arns
}
