output "vpc_id" {
  description = "Id of the network."
  value       = aws_vpc.this.id
}

output "private_subnet_ids" {
  description = "Subnets of nodes and pods, one a zone."
  value       = [for subnet in aws_subnet.private : subnet.id]
}

output "data_subnet_ids" {
  description = "Subnets of the managed services, one a zone."
  value       = [for subnet in aws_subnet.data : subnet.id]
}
