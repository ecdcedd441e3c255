"""Coverage of confidence intervals: how often they contain the true value."""
