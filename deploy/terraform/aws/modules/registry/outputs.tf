output "urls" {
  description = "Where to push, by repository."
  value       = { for name, repository in aws_ecr_repository.this : name => repository.repository_url }
}
