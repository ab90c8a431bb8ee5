"""Documents: what an app knows from files, for all its users or for one."""
