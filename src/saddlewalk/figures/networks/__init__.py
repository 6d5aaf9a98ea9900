"""The networks that figures train beside the package's own units, and how to train many at once."""
