"""modelctl: a model enters production the way code does.

A pull request, seven admission checks, publication once to MinIO, a canary rollout that Argo CD takes from git, and
an audit trail that is the git history.
"""

__version__ = "0.1.0"
