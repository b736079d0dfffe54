locals {
  # Both count: docs/operations.md says what a server and a worker process hold. The rest is for
  # people, backups and RDS itself.
  connections = (
    var.fleet.max_servers * (var.fleet.pool_size + 3)
    + var.fleet.max_worker_processes * 3
    + 25
  )

  pool_label = "jobqueue/pool"
  logs = {
    retention_days = var.log_retention_days
    key_arn        = module.encryption.key_arn
  }
}

module "encryption" {
  source = "./modules/encryption"

  name                 = var.name
  deletion_window_days = var.protected ? 30 : 7
}

module "network" {
  source = "./modules/network"

  name                = var.name
  cidr                = var.network.cidr
  zone_count          = var.network.zone_count
  nat_per_zone        = var.network.nat_per_zone
  interface_endpoints = var.network.interface_endpoints
}

module "registry" {
  source = "./modules/registry"

  repositories = ["jobqueue-ctl", "jobqueue-server", "jobqueue-worker"]
  kept_images  = var.kept_images
  force_delete = !var.protected
  key_arn      = module.encryption.key_arn
}

module "cluster" {
  source = "./modules/cluster"

  name                = var.name
  kubernetes_version  = var.kubernetes_version
  vpc_id              = module.network.vpc_id
  subnet_ids          = module.network.private_subnet_ids
  public_api_cidrs    = var.public_api_cidrs
  admin_arns          = var.admin_arns
  deletion_protection = var.protected
  pool_label          = local.pool_label
  server_nodes        = var.server_nodes
  worker_nodes        = var.worker_nodes
  logs                = local.logs
}

module "database" {
  source = "./modules/database"

  name                          = var.name
  vpc_id                        = module.network.vpc_id
  subnet_ids                    = module.network.data_subnet_ids
  clients                       = module.cluster.pool_security_group_ids
  engine_version                = var.database.engine_version
  instance_class                = var.database.instance_class
  multi_az                      = var.database.multi_az
  backup_retention_days         = var.database.backup_retention_days
  max_wal_size_mb               = var.database.max_wal_size_mb
  idle_in_transaction_timeout_s = var.database.idle_in_transaction_timeout_s
  max_connections               = local.connections
  protected                     = var.protected
  password_version              = var.password_version
  key_arn                       = module.encryption.key_arn
  logs                          = local.logs
  alarm_topic_arns              = var.alarm_topic_arns

  storage = {
    initial_gib = var.database.initial_gib
    limit_gib   = var.database.limit_gib
  }
}

# Workers need neither locks nor Kafka, so their nodes cannot reach them.
module "cache" {
  source = "./modules/cache"
  count  = var.cache == null ? 0 : 1

  name             = var.name
  vpc_id           = module.network.vpc_id
  subnet_ids       = module.network.data_subnet_ids
  clients          = { server = module.cluster.pool_security_group_ids["server"] }
  engine_version   = var.cache.engine_version
  node_type        = var.cache.node_type
  nodes            = var.cache.nodes
  protected        = var.protected
  password_version = var.password_version
  key_arn          = module.encryption.key_arn
}

module "events" {
  source = "./modules/events"
  count  = var.events == null ? 0 : 1

  name             = var.name
  vpc_id           = module.network.vpc_id
  subnet_ids       = module.network.data_subnet_ids
  clients          = { server = module.cluster.pool_security_group_ids["server"] }
  kafka_version    = var.events.kafka_version
  instance_type    = var.events.instance_type
  storage_gib      = var.events.storage_gib
  username         = local.kafka_username
  protected        = var.protected
  password_version = var.password_version
  key_arn          = module.encryption.key_arn
  logs             = local.logs
  alarm_topic_arns = var.alarm_topic_arns

  topic = {
    partitions      = var.events.partitions
    retention_hours = var.events.retention_hours
  }
}
