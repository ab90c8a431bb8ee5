"""What is measured, suite by suite."""
