"""Cores: the affinity of the process, less where a cgroup of it or above it grants less."""

import pytest
from judged_server.embedding.runtime.cores import available_cores


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("9900000 100000\n", 8),
        ("junk", 8),
        ("100000 0\n", 8),
    ],
)
def test_a_quota_bounds_the_cores(tmp_path, content, expected):
    (tmp_path / "cpu.max").write_text(content)
    assert available_cores(tmp_path, tmp_path / "none") == expected


def test_without_cgroups_the_affinity_counts(tmp_path):
    assert available_cores(tmp_path / "none", tmp_path / "none") == 8


@pytest.mark.parametrize("tight", ["a.slice", "a.slice/b.service"])
def test_a_quota_anywhere_above_the_process_counts(tmp_path, tight):
    (tmp_path / "own").write_text("0::/a.slice/b.service\n")
    (tmp_path / "root" / "a.slice" / "b.service").mkdir(parents=True)
    (tmp_path / "root" / "a.slice" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "root" / tight / "cpu.max").write_text("300000 100000\n")
    assert available_cores(tmp_path / "root", tmp_path / "own") == 3


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("250000", 2)])
def test_the_first_version_of_cgroups_has_two_files(tmp_path, quota, expected):
    (tmp_path / "own").write_text("5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/docker/y\n")
    folder = tmp_path / "root" / "cpu" / "docker" / "x"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert available_cores(tmp_path / "root", tmp_path / "own") == expected
