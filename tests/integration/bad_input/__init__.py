"""Cases of bad requests, a module for each part of the contract."""
