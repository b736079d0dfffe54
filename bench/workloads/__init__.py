"""The workloads: what is done, how it is counted, and what a table of it shows."""
