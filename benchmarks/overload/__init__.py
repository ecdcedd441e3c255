"""Behaviour of the service under overload."""
