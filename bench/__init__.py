"""Measures jobqueue and its peers side by side, in one run on one durable PostgreSQL.

`make bench` and `make bench-full` run it; docs/benchmarks.md says how to read what comes out. Not
part of the installed package. This module must stay light: peers' own interpreters import it.
"""
