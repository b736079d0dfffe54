# Three zones, each of which may fail; whatever holds data is protected. Room for a thousand jobs a
# second of a fifth of a second each; docs/deploy.md says how sizes follow from the work.

provider "aws" {
  region = var.region

  default_tags {
    tags = { project = "jobqueue", environment = "production" }
  }
}

module "jobqueue" {
  source = "../.."

  name             = "jobqueue"
  admin_arns       = var.admin_arns
  public_api_cidrs = var.public_api_cidrs
  alarm_topic_arns = var.alarm_topic_arns

  network = {
    zone_count          = 3
    nat_per_zone        = true
    interface_endpoints = ["ecr.api", "ecr.dkr", "logs", "secretsmanager", "sts"]
  }

  server_nodes = {
    instance_types = ["m7i.large"]
    min            = 3
    max            = 6
  }

  worker_nodes = {
    instance_types = ["m7i.xlarge", "m6i.xlarge"]
    min            = 1
    max            = 10
  }

  fleet = {
    max_servers          = 10
    pool_size            = 10
    max_worker_processes = 40
  }

  database = {
    instance_class        = "db.m7g.xlarge"
    initial_gib           = 400
    limit_gib             = 4000
    multi_az              = true
    backup_retention_days = 14
  }

  cache  = { nodes = 3 }
  events = { storage_gib = 500 }

  log_retention_days = 90
}
