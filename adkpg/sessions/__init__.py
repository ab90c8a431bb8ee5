"""Sessions: events and state, stored as ADK expects and read back exactly."""
