"""Looks into files without loading them: ClamAV, archives, pickles, Python code, templates and secrets."""
