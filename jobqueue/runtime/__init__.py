"""Loops are where queues break.

Start, stop, crash, back-off, clock and signals are written once, here.
"""
