"""The three programs: parse flags, call wiring, print.

Kept thin, so that every rule below has a second caller: the tests.
"""
