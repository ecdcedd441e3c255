"""How providers spell requests and replies; `fake` has no wire: it answers from a file."""
