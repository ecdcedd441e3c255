"""Requests of any size: cut into messages, sent again where they broke, and put together."""
