"""Writes what Grafana and the Prometheus operator read: `make monitoring`.

A dashboard is a thousand lines of JSON of which a few say something. Those few are here, one file a
dashboard, and ``grafana`` adds the rest. The PrometheusRule is the plain rule file in an envelope.
"""
