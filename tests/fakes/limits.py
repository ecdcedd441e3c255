"""The settings that a server has by default, whatever the environment says.

Tests make those limits smaller that they are about: `limits(max_groups=10)`.
"""

from typing import Any

from judged_server.settings import Settings


def limits(**smaller: Any) -> Settings:
    return Settings.model_construct(**smaller)
