"""Operators that can be checked, measured and inspected by name, and have no committed measurements yet.

Pages and tests that ask for a record of every operator go by `kernels.ops.registry.OPS`. A name moves from here to
there together with its first measurements.
"""

from kernels.ops import registry
from kernels.ops.op import Op

NAMES = ()


def find(name: str) -> Op:
    """The operator of that name, measured or not; KeyError with a sentence that lists the names there are."""
    records = [record for file in NAMES for record in registry._records(file)]
    for record in records:
        if record.name == name:
            return record
    if name in registry.OPS:
        return registry.OPS[name]
    known = ", ".join([*registry.OPS, *(record.name for record in records)])
    raise KeyError(f"There is no operator named {name!r}; there are {known}.")
