"""The HTTP doors: probes and metrics for those who run the programs."""
