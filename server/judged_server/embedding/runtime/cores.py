"""How many cores this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def available_cores(root: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Return the cores of this process's affinity, or fewer where a cgroup grants less.

    A quota is rounded to whole cores, at least one.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    granted = [share for folder in _folders(root, own) if (share := _quota(folder)) is not None]
    return max(1, min([cores, *(round(share) for share in granted)]))


def _folders(root: Path, own: Path) -> Iterator[Path]:
    """Yield the folders whose quotas hold for this process.

    In a container the root shows the container's own cgroup; elsewhere its path is in `own`.
    """
    yield root
    yield root / "cpu"
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        folder = root / "cpu" if controllers else root
        for part in Path(path).parts[1:]:
            if part == "..":
                break
            folder /= part
            yield folder


def _quota(folder: Path) -> float | None:
    """Return the cores that one cgroup grants; None without a quota."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        share = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max": no quota
        return None
    return share if share > 0 else None
