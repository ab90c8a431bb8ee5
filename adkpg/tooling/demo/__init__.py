"""``adkpg demo``: an agent that remembers across processes, for a newcomer to see."""
