"""How calls come in: addresses, certificates, connections, messages."""
