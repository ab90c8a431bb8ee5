"""Reading what is stored, record by record, to be written elsewhere."""
