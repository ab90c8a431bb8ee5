"""An agent that loads its memories."""
