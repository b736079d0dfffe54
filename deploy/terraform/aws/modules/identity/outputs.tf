output "role_arn" {
  description = "For the annotation eks.amazonaws.com/role-arn of the service account."
  value       = aws_iam_role.this.arn
}
