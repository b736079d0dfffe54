"""The HTTP doors: probes for those who run the programs."""
