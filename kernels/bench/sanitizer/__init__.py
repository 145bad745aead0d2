"""Every kernel path under NVIDIA's compute-sanitizer: the paths, a planted fault on each, the reports, the record."""
