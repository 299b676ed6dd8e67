"""Self-contained HTML pages: their style, and charts that follow the reader's dark or light mode."""
