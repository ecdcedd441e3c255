"""Results with a faulty provider, in judged and in two peers."""
