"""Start or reach an engine, put load on it, and read its metrics."""
