terraform {
  required_version = ">= 1.11, < 2.0"

  # Bucket and region are given to `terraform init`.
  backend "s3" {
    key          = "jobqueue/production.tfstate"
    encrypt      = true
    use_lockfile = true
  }

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "6.25.0"
    }
    random = {
      source  = "hashicorp/random"
      version = "3.7.2"
    }
  }
}
