"""Dead items frozen as numbered sets, what a replay of one would do, and what became of its run."""
