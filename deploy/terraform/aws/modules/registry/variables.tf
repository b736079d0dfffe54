variable "repositories" {
  description = "Names of the repositories."
  type        = set(string)
}

variable "kept_images" {
  description = "Images kept in each repository, newest first."
  type        = number
}

variable "force_delete" {
  description = "Delete repositories with the images in them on destroy."
  type        = bool
}

variable "key_arn" {
  description = "Key that encrypts the images."
  type        = string
}
