"""From a published release and an environment to manifests in git."""
