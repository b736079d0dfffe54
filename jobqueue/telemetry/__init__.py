"""What others see of the inner rooms: metrics for Prometheus, traces for OpenTelemetry.

The inner rooms do not know it: they signal what happened, and are surrounded. What makes traces is
loaded only by a program that was told to export them.
"""
