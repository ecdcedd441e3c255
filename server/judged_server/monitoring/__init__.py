"""Monitoring of a running server: metrics for Prometheus, readiness, and OpenTelemetry spans."""
