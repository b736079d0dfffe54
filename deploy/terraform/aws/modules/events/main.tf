resource "aws_security_group" "this" {
  name        = "${var.name}-events"
  description = "Kafka of ${var.name}"
  vpc_id      = var.vpc_id

  tags = { Name = "${var.name}-events" }
}

# 9096 is SASL/SCRAM over TLS, the only door that is open.
resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = var.clients

  security_group_id            = aws_security_group.this.id
  description                  = "Kafka from ${each.key} nodes"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 9096
  to_port                      = 9096
}

locals {
  replicas = min(3, length(var.subnet_ids))
}

# The relay's first event makes the topic, with the values given here; brokers serve nothing else.
# An event is confirmed by all but one of its replicas, so one broker may be away.
resource "aws_msk_configuration" "this" {
  # The version is part of it: another version needs a new one, before the old one can go.
  name           = "${var.name}-${replace(var.kafka_version, ".", "-")}"
  description    = "Defaults of the topic of events"
  kafka_versions = [var.kafka_version]

  server_properties = <<-EOT
    auto.create.topics.enable=true
    num.partitions=${var.topic.partitions}
    default.replication.factor=${local.replicas}
    min.insync.replicas=${local.replicas - 1}
    log.retention.hours=${var.topic.retention_hours}
    unclean.leader.election.enable=false
  EOT

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/aws/msk/${var.name}"
  retention_in_days = var.logs.retention_days
  kms_key_id        = var.logs.key_arn
}

resource "aws_msk_cluster" "this" {
  cluster_name           = var.name
  kafka_version          = var.kafka_version
  number_of_broker_nodes = length(var.subnet_ids)
  enhanced_monitoring    = "PER_BROKER"

  broker_node_group_info {
    instance_type   = var.instance_type
    client_subnets  = var.subnet_ids
    security_groups = [aws_security_group.this.id]

    storage_info {
      ebs_storage_info {
        volume_size = var.storage_gib
      }
    }
  }

  client_authentication {
    unauthenticated = false

    sasl {
      scram = true
    }
  }

  configuration_info {
    arn      = aws_msk_configuration.this.arn
    revision = aws_msk_configuration.this.latest_revision
  }

  encryption_info {
    encryption_at_rest_kms_key_arn = var.key_arn

    encryption_in_transit {
      client_broker = "TLS"
      in_cluster    = true
    }
  }

  logging_info {
    broker_logs {
      cloudwatch_logs {
        enabled   = true
        log_group = aws_cloudwatch_log_group.this.name
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "disk" {
  for_each = toset([for i in range(length(var.subnet_ids)) : tostring(i + 1)])

  alarm_name          = "${var.name}-events-disk-${each.key}"
  alarm_description   = "The disk of broker ${each.key} is nearly full: more storage, or less retention."
  namespace           = "AWS/Kafka"
  metric_name         = "KafkaDataLogsDiskUsed"
  dimensions          = { "Cluster Name" = var.name, "Broker ID" = each.key }
  statistic           = "Maximum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 80
  period              = 300
  evaluation_periods  = 3
  treat_missing_data  = "missing"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}
