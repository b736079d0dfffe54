"""Takes jobs in, looks them up, cancels and retries them.

Everything asked about a job by those who do not run it, once for all doors.
"""
