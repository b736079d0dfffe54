output "name" {
  description = "Name of the cluster, once nodes can join it."
  value       = aws_eks_cluster.this.name
}

output "oidc" {
  description = "The cluster's issuer of tokens, for roles of service accounts."
  value       = local.oidc
}

output "pool_security_group_ids" {
  description = "Security groups of the nodes, by pool: server and worker."
  value       = { for pool, group in aws_security_group.pool : pool => group.id }
}

output "autoscaler_role_arn" {
  description = "Role of the service account kube-system/cluster-autoscaler."
  value       = module.autoscaler_identity.role_arn
}

output "log_groups" {
  description = "Log groups of control plane and containers."
  value = concat(
    [aws_cloudwatch_log_group.control_plane.name],
    [for group in aws_cloudwatch_log_group.containers : group.name],
  )
}
