"""What a job is and may do, in rules that test in microseconds.

No I/O; time and chance are arguments.
"""
