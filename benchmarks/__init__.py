"""What adkpg costs and recalls, beside other packages: `python benchmarks`."""
