"""The cluster: what is otherwise where Citus distributes the tables over several servers."""
