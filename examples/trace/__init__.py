"""One job's trace across two processes, printed as a tree: `python -m examples.trace`."""
