# The whole of it without an account: `terraform test` makes up what AWS would answer.

mock_provider "aws" {
  mock_data "aws_availability_zones" {
    defaults = { names = ["eu-central-1a", "eu-central-1b", "eu-central-1c"] }
  }

  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }

  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }

  mock_resource "aws_db_instance" {
    defaults = {
      endpoint           = "db.example:5432"
      master_user_secret = [{ secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:rds" }]
    }
  }

  mock_resource "aws_eks_cluster" {
    defaults = {
      identity = [{ oidc = [{ issuer = "https://oidc.eks.eu-central-1.amazonaws.com/id/0" }] }]
    }
  }
}

variables {
  admin_arns = ["arn:aws:iam::123456789012:role/platform"]
}

run "the_database_takes_the_whole_fleet" {
  assert {
    condition     = output.jobqueue.max_connections == 10 * (10 + 3) + 40 * 3 + 25
    error_message = "max_connections is not what servers and workers hold."
  }
}

run "every_part_has_its_secret" {
  assert {
    condition     = join(" ", keys(output.jobqueue.secret_arns)) == "admin cache events server worker"
    error_message = "A secret is missing, or there is one too many."
  }
}

run "the_api_cannot_be_opened_to_everybody" {
  command = plan

  variables {
    public_api_cidrs = ["203.0.113.7/32", "0.0.0.0/0"]
  }

  expect_failures = [var.public_api_cidrs]
}

run "somebody_must_be_able_to_enter" {
  command = plan

  variables {
    admin_arns = []
  }

  expect_failures = [var.admin_arns]
}
