"""Writing memories: what changes is planned, then applied in one transaction."""
