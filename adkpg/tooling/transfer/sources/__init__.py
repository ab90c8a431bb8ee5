"""Sources: what sessions are read from, one after another, as `adkpg.tooling.transfer.records`."""
