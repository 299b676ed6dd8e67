"""What each panel of a dashboard asks Prometheus: what users see, each engine by itself, and the GPUs."""
