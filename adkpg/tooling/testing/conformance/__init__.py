"""Suites that say what ADK expects of its services, for whoever implements one."""
