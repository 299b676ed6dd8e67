"""The model repository under test: pinned, read-only, every byte accounted for."""
