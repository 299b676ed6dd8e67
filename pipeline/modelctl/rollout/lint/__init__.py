"""What API schemas can't see in a rendered or hand-edited folder of manifests."""
