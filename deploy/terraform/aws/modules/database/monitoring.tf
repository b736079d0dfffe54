data "aws_partition" "current" {}

data "aws_iam_policy_document" "monitoring_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["monitoring.rds.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "monitoring" {
  name               = "${var.name}-database-monitoring"
  description        = "Figures of the machine below PostgreSQL of ${var.name}"
  assume_role_policy = data.aws_iam_policy_document.monitoring_trust.json
}

resource "aws_iam_role_policy_attachment" "monitoring" {
  role       = aws_iam_role.monitoring.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AmazonRDSEnhancedMonitoringRole"
}

# What no metric of jobqueue sees. The rest is in the rules for Prometheus.
resource "aws_cloudwatch_metric_alarm" "storage" {
  alarm_name          = "${var.name}-database-storage"
  alarm_description   = "A tenth of the first size is left: the disk has not grown, or is at its limit."
  namespace           = "AWS/RDS"
  metric_name         = "FreeStorageSpace"
  dimensions          = { DBInstanceIdentifier = aws_db_instance.this.identifier }
  statistic           = "Minimum"
  comparison_operator = "LessThanThreshold"
  threshold           = var.storage.initial_gib * 1024 * 1024 * 1024 / 10
  period              = 300
  evaluation_periods  = 3
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "connections" {
  alarm_name          = "${var.name}-database-connections"
  alarm_description   = "Nine tenths of max_connections are taken: fewer programs, or PgBouncer."
  namespace           = "AWS/RDS"
  metric_name         = "DatabaseConnections"
  dimensions          = { DBInstanceIdentifier = aws_db_instance.this.identifier }
  statistic           = "Maximum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = floor(var.max_connections * 0.9)
  period              = 60
  evaluation_periods  = 5
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}
