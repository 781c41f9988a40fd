"""What `wiresum doctor` says about the service."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from wiresum.cli import doctor_service


def test_capabilities_are_named():
    assert doctor_service.lacking(0) == ["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"]
    assert doctor_service.lacking(1 << 12 | 1 << 39) == ["CAP_PERFMON"]
    assert doctor_service.lacking(1 << 12 | 1 << 21) == [], "CAP_SYS_ADMIN stands for two"


def test_locked_memory_is_a_limit_or_a_capability(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8 << 20, 8 << 20))
    monkeypatch.setattr(doctor_service, "effective_capabilities", lambda: 0)
    assert "ulimit -l 32768" in doctor_service.why_too_little_locked_memory()
    monkeypatch.setattr(doctor_service, "effective_capabilities", lambda: 1 << 14)
    assert doctor_service.why_too_little_locked_memory() == ""


def test_a_unit_is_looked_for_where_systemd_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(doctor_service, "UNIT_FOLDERS", (str(tmp_path),))
    assert "packaging/systemd" in doctor_service.why_no_unit()
    (tmp_path / doctor_service.UNIT).touch()
    assert doctor_service.why_no_unit() == ""


def test_a_socket_that_nobody_answers_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(doctor_service.control, "default_socket", lambda: tmp_path / "node-0.sock")
    assert "none in" in doctor_service.why_no_running_daemon()
    (tmp_path / "node-3.sock").touch()
    assert "node-3.sock" in doctor_service.why_no_running_daemon()
