"""Between the public values and the messages of the contract."""
