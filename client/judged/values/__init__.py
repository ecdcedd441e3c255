"""What goes over the wire, as Python has it: the one form of it, of the client and of the server.

Frozen dataclasses and enums, of the standard library alone. A field bears the name that it has in
the contract; `judged._codec` makes messages of values and values of messages.
"""

from judged.values.agreement import *
from judged.values.calibration import *
from judged.values.calibrators import *
from judged.values.choices import *
from judged.values.comparison import *
from judged.values.groups import *
from judged.values.judges import *
from judged.values.metrics import *
from judged.values.scores import *
from judged.values.server_info import *
