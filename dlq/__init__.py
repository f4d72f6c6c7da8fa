"""Dead letters: the topic that holds them, and the commands that act on them."""
