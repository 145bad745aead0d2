"""Small sites for the engine's tests."""

from pathlib import Path

import pytest
from lessons_project import Project  # placed on the path by pytest: this folder


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "site-source")
