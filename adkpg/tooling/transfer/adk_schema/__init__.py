"""Writing the schema of ADK's own DatabaseSessionService, for a team that goes back."""
