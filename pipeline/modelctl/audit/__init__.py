"""What happened, from git history alone, and whether it all agrees."""
