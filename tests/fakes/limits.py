"""The limits of requests that a server has by default, whatever the environment says.

Tests make those smaller that they are about: `replace(LIMITS, max_groups=10)`.
"""

from judged_server.settings import Settings
from judged_server.wiring import request_limits

LIMITS = request_limits(Settings.model_construct())
