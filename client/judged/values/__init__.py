"""The Python types of the contract, shared by the client and the server.

Frozen dataclasses and enums, with the standard library only. Fields have the names of the contract;
`judged._codec` converts between values and messages.
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
