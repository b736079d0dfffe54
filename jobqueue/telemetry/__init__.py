"""What others see of the inner rooms: traces for OpenTelemetry.

Loaded only by a program that was told to export; the inner rooms do not know it.
"""
