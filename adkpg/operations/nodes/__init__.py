"""The nodes of a cluster: what each measures of the parts that it has, and whether it answers."""
