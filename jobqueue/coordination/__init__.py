"""Lets one replica at a time do what every replica could do.

A courtesy that saves work, never a condition of correctness: the statements of the reaper and of
the scheduler are safe when all replicas run them at once. So whenever Redis cannot say who acts,
everybody acts.
"""
