import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined, so before any test module is imported
