"""Which program, block, warp and lane touched which element: recorded from the kernel itself, on the CPU."""

from kernels.trace.advice import Advice
from kernels.trace.faults import Fault
from kernels.trace.model import Buffer, Event, Launch, Recorder, Trace
from kernels.trace.requests import Request

__all__ = ["Advice", "Buffer", "Event", "Fault", "Launch", "Recorder", "Request", "Trace"]
