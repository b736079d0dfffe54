"""Runs other people's code without letting it hurt us.

Handlers hang, crash and lie; leases must not care.
"""
