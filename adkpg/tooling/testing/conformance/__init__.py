"""Suites that say what ADK expects of its services, for those who implement one."""
