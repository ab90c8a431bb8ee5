"""What adkpg costs and recalls, alongside other packages: `python benchmarks`."""
