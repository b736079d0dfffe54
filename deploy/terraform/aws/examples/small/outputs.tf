output "jobqueue" {
  description = "Everything that the manifests need; README.md of the module says how."
  value       = module.jobqueue
}
