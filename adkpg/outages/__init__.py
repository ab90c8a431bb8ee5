"""Outages: deadlines and circuit breakers for what is outside of adkpg and may not answer."""
