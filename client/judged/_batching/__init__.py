"""Requests of any size: split into messages, resent after failures, and replies joined."""
