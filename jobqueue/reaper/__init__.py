"""What must happen when workers die, and when time comes.

Every duty is safe when two replicas perform it at once, so no lock has to be right.
"""
