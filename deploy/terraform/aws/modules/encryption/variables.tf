variable "name" {
  description = "Name of the installation; the key's alias."
  type        = string
}

variable "deletion_window_days" {
  description = "Days between the order to delete the key and its end."
  type        = number

  validation {
    condition     = var.deletion_window_days >= 7 && var.deletion_window_days <= 30
    error_message = "AWS allows 7 to 30 days."
  }
}
