"""What goes into and comes out of the statistics of judges and runs."""
