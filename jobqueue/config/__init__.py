"""Settings: read once, checked whole, then frozen.

No other room looks at the environment or at a file, so one place explains every value.
"""
