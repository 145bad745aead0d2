"""What an exercise imports is there before an answer is loaded, so that loading it is not taken for a trick."""

import importlib

import pytest

from kernels.exercises import Exercise, library, warm


def test_imports_are_names_of_modules():
    assert Exercise("lessons/1-x.md", "Add.", imports=("json",)).imports == ("json",)
    with pytest.raises(ValueError, match="imports is one string"):
        Exercise("lessons/1-x.md", "Add.", imports="json")


def test_the_warm_process_imports_what_the_exercise_of_a_job_names(monkeypatch):
    imported = []
    monkeypatch.setattr(importlib, "import_module", imported.append)
    root = library.find("custom_op").root
    warm.import_more({"exercise": "custom_op", "root": str(root)})
    assert "torch._dynamo" in imported
    warm.import_more({"exercise": "no_such_exercise", "root": str(root)})
    assert imported.count("torch._dynamo") == 1
