data "aws_partition" "current" {}

locals {
  managed_policies = "arn:${data.aws_partition.current.partition}:iam::aws:policy"
}

data "aws_iam_policy_document" "control_plane_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["eks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "control_plane" {
  name               = "${var.name}-control-plane"
  description        = "The control plane of ${var.name}"
  assume_role_policy = data.aws_iam_policy_document.control_plane_trust.json
}

resource "aws_iam_role_policy_attachment" "control_plane" {
  role       = aws_iam_role.control_plane.name
  policy_arn = "${local.managed_policies}/AmazonEKSClusterPolicy"
}

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

# Nodes join and pull images; what pods may do is said by the roles of their service accounts.
resource "aws_iam_role" "node" {
  name               = "${var.name}-node"
  description        = "Nodes of ${var.name}"
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"])

  role       = aws_iam_role.node.name
  policy_arn = "${local.managed_policies}/${each.key}"
}

module "network_identity" {
  source = "../identity"

  name            = "${var.name}-vpc-cni"
  oidc            = local.oidc
  namespace       = "kube-system"
  service_account = "aws-node"
  managed_policy_arns = {
    cni = "${local.managed_policies}/AmazonEKS_CNI_Policy"
  }
}

module "logs_identity" {
  source = "../identity"

  name            = "${var.name}-cloudwatch-agent"
  oidc            = local.oidc
  namespace       = "amazon-cloudwatch"
  service_account = "cloudwatch-agent"
  managed_policy_arns = {
    agent = "${local.managed_policies}/CloudWatchAgentServerPolicy"
  }
}

# Pods that wait for room get nodes only where something asks for them: the cluster autoscaler,
# which may touch no group but those of this cluster.
data "aws_iam_policy_document" "autoscaler" {
  statement {
    sid = "Look"
    actions = [
      "autoscaling:DescribeAutoScalingGroups",
      "autoscaling:DescribeAutoScalingInstances",
      "autoscaling:DescribeLaunchConfigurations",
      "autoscaling:DescribeScalingActivities",
      "autoscaling:DescribeTags",
      "ec2:DescribeImages",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeLaunchTemplateVersions",
      "ec2:GetInstanceTypesFromInstanceRequirements",
      "eks:DescribeNodegroup",
    ]
    resources = ["*"]
  }

  statement {
    sid = "Scale"
    actions = [
      "autoscaling:SetDesiredCapacity",
      "autoscaling:TerminateInstanceInAutoScalingGroup",
    ]
    resources = ["*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/k8s.io/cluster-autoscaler/${var.name}"
      values   = ["owned"]
    }
  }
}

module "autoscaler_identity" {
  source = "../identity"

  name            = "${var.name}-cluster-autoscaler"
  oidc            = local.oidc
  namespace       = "kube-system"
  service_account = "cluster-autoscaler"
  policies = {
    scale = data.aws_iam_policy_document.autoscaler.json
  }
}
