"""The stream of events: from ``job_events`` to Kafka, and to those who watch (R-6)."""
