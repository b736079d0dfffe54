# Before the nodes, which are not ready without it. Network policies do nothing unless asked for.
resource "aws_eks_addon" "network" {
  cluster_name             = aws_eks_cluster.this.name
  addon_name               = "vpc-cni"
  service_account_role_arn = module.network_identity.role_arn
  configuration_values     = jsonencode({ enableNetworkPolicy = "true" })
}

# metrics-server is what the servers' autoscaler reads CPU from.
resource "aws_eks_addon" "plain" {
  for_each = toset(["coredns", "kube-proxy", "metrics-server"])

  cluster_name = aws_eks_cluster.this.name
  addon_name   = each.key

  depends_on = [aws_eks_node_group.pool]
}

resource "aws_cloudwatch_log_group" "containers" {
  for_each = toset(["application", "dataplane", "host", "performance"])

  name              = "/aws/containerinsights/${var.name}/${each.key}"
  retention_in_days = var.logs.retention_days
  kms_key_id        = var.logs.key_arn
}

# Sends what containers write to the groups above.
resource "aws_eks_addon" "logs" {
  cluster_name             = aws_eks_cluster.this.name
  addon_name               = "amazon-cloudwatch-observability"
  service_account_role_arn = module.logs_identity.role_arn

  depends_on = [
    aws_cloudwatch_log_group.containers,
    aws_eks_node_group.pool,
  ]
}
