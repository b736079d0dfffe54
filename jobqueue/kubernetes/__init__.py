"""Tells Kubernetes which worker pods are busy, so that a scale-in takes idle ones.

A courtesy like the lock in Redis: nothing here may disturb a job, whatever the API server does.
"""
