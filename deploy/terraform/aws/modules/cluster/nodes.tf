# Two groups: what must stay (servers, cluster services) and what comes and goes with the work.
locals {
  pools = {
    server = var.server_nodes
    worker = var.worker_nodes
  }
}

# Without rules of their own: they tell servers from workers in the rules of database, cache and
# brokers.
resource "aws_security_group" "pool" {
  for_each = local.pools

  name        = "${var.name}-${each.key}-nodes"
  description = "Nodes of the ${each.key} pool of ${var.name}"
  vpc_id      = var.vpc_id

  tags = { Name = "${var.name}-${each.key}-nodes" }
}

resource "aws_launch_template" "pool" {
  for_each = local.pools

  name_prefix = "${var.name}-${each.key}-"
  vpc_security_group_ids = [
    aws_eks_cluster.this.vpc_config[0].cluster_security_group_id,
    aws_security_group.pool[each.key].id,
  ]

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = each.value.disk_gib
      encrypted             = true
      delete_on_termination = true
    }
  }

  # One hop: a pod does not reach the node's credentials.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  tag_specifications {
    resource_type = "instance"
    tags          = { Name = "${var.name}-${each.key}" }
  }
}

resource "aws_eks_node_group" "pool" {
  for_each = local.pools

  cluster_name    = aws_eks_cluster.this.name
  node_group_name = each.key
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnet_ids

  ami_type       = "AL2023_x86_64_STANDARD"
  capacity_type  = each.value.capacity_type
  instance_types = each.value.instance_types
  labels         = { (var.pool_label) = each.key }

  launch_template {
    id      = aws_launch_template.pool[each.key].id
    version = aws_launch_template.pool[each.key].latest_version
  }

  scaling_config {
    min_size     = each.value.min
    max_size     = each.value.max
    desired_size = each.value.min
  }

  update_config {
    max_unavailable_percentage = 25
  }

  # Nothing but workers may stand on nodes that are taken away when queues are empty.
  dynamic "taint" {
    for_each = each.key == "worker" ? [each.key] : []

    content {
      key    = var.pool_label
      value  = taint.value
      effect = "NO_SCHEDULE"
    }
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size] # the autoscaler's
  }

  depends_on = [
    aws_eks_addon.network,
    aws_iam_role_policy_attachment.node,
  ]
}
