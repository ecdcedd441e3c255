"""What goes over the wire, as Python has it: the one form of it, of the client and of the server.

Frozen dataclasses and enums, of the standard library alone. A field bears the name that it has in
the contract; `judged._codec` makes messages of values and values of messages.
"""
