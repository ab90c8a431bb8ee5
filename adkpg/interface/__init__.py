"""What of adkpg is its public interface, and what is not."""
