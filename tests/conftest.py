from __future__ import annotations

from hypothesis import settings

# How long an example takes says nothing on a shared machine; benchmarks measure time.
settings.register_profile("judged", deadline=None)
settings.load_profile("judged")
