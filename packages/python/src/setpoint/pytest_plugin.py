"""Fixtures of pytest, found by their entry point."""

from __future__ import annotations

from typing import Iterator

import pytest

from ._cluster import Cluster


@pytest.fixture
def setpoint_cluster() -> Iterator[Cluster]:
    """A new cluster for each test: it is ready in milliseconds."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def setpoint_session_cluster() -> Iterator[Cluster]:
    """One cluster for all tests."""
    with Cluster() as cluster:
        yield cluster
