"""Published releases: the object store that holds their bytes and the records that git keeps of them."""
