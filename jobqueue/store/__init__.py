"""Exactly one home for each SQL statement.

Functions take a connection or pool first, so that a caller may own the transaction.
"""
