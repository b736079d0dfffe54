# To try it out and to throw away: two zones, one NAT gateway, one small database without a standby,
# no Kafka. `terraform destroy` removes all of it, data included.

provider "aws" {
  region = var.region

  default_tags {
    tags = { project = "jobqueue", environment = "small" }
  }
}

module "jobqueue" {
  source = "../.."

  name             = "jobqueue-small"
  protected        = false
  admin_arns       = var.admin_arns
  public_api_cidrs = var.public_api_cidrs

  network = {
    zone_count   = 2
    nat_per_zone = false
  }

  server_nodes = {
    instance_types = ["t3.large"]
    min            = 2
    max            = 3
  }

  worker_nodes = {
    instance_types = ["t3.large", "t3a.large"]
    capacity_type  = "SPOT"
    min            = 0
    max            = 3
  }

  # What the autoscalers of the manifests may make, and a quarter more workers while they roll.
  fleet = {
    max_servers          = 10
    pool_size            = 5
    max_worker_processes = 25
  }

  database = {
    instance_class        = "db.t4g.medium"
    initial_gib           = 20
    limit_gib             = 50
    multi_az              = false
    backup_retention_days = 1
    max_wal_size_mb       = 4096
  }

  cache  = { nodes = 1 }
  events = null

  log_retention_days = 7
}
