"""Embedded parts for a laptop and the demo: a private clamd, an S3 server on disk, Prometheus. Loopback only."""
