"""Named wrong kernels, and what the tracer says of each; right ones in another style, of which it must say nothing."""
