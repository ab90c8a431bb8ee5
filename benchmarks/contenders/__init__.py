"""Who is measured: adkpg, its peers, and the floor under them."""
