"""Steady work of several kinds, until it is stopped: `python -m examples.load`.

For watching a system at work, in docker-compose.yml or beside programs of your own.
"""
