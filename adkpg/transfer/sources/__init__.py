"""Sources: what sessions are read from, one after another, as `adkpg.transfer.records`."""
