"""A distributed job queue on PostgreSQL.

Nothing is imported here: the command line must start fast.
"""
