"""Symbol tables of libraries: of a Mach-O file, which no machine of ours makes, one written here by its description."""

import struct

import pytest

from kernels.trace.cuda_library import Symbol, read_symbols


def mach_file(path, sections, symbols):
    """A 64-bit Mach-O file of one segment: sections (name, address, size), symbols (name, section or 0, address)."""
    strings, entries = b"\0", b""
    for name, section, value in symbols:
        kind = 0x0E if section else 0x01  # N_SECT, or undefined and external
        entries += struct.pack("<IBBHQ", len(strings), kind, section, 0, value)
        strings += name.encode() + b"\0"
    segment_size = 72 + 80 * len(sections)
    start = 32 + segment_size + 24
    header = struct.pack("<IIIIIIII", 0xFEEDFACF, 0x0100000C, 0, 6, 2, segment_size + 24, 0, 0)
    segment = struct.pack("<II16sQQQQIIII", 0x19, segment_size, b"__DATA", 0, 0, 0, 0, 3, 3, len(sections), 0)
    for name, address, size in sections:
        segment += struct.pack("<16s16sQQ", name.encode(), b"__DATA", address, size) + bytes(32)
    table = struct.pack("<IIIIII", 0x2, 24, start, len(symbols), start + len(entries), len(strings))
    path.write_bytes(header + segment + table + entries + strings)
    return path


def test_a_mach_symbol_reaches_to_the_next_one_or_to_the_end_of_its_section(tmp_path):
    sections = [("__text", 0, 64), ("__data", 64, 32), ("__thread_data", 256, 256), ("__thread_bss", 512, 512)]
    symbols = [
        ("_launch", 1, 0),
        ("_table", 2, 64),
        ("__ZL5other", 2, 80),
        ("_kh_anchor$tlv$init", 3, 256),
        ("__ZZ6kernelPfE4tile$tlv$init", 4, 512),
        ("__ZZ6kernelPfE4line$tlv$init", 4, 768),
        ("_malloc", 0, 0),
    ]
    found = read_symbols(mach_file(tmp_path / "library.so", sections, symbols))
    assert found == [
        Symbol("table", 64, 16, False),
        Symbol("_ZL5other", 80, 16, False),
        Symbol("kh_anchor", 256, 256, True),
        Symbol("_ZZ6kernelPfE4tile", 512, 256, True),
        Symbol("_ZZ6kernelPfE4line", 768, 256, True),
    ]
    assert [symbol.name for symbol in found] == ["table", "other", "kh_anchor", "tile", "line"]


def test_another_kind_of_file_is_refused(tmp_path):
    (tmp_path / "text.so").write_text("#!/bin/sh\n")
    with pytest.raises(ValueError, match=r"text\.so is neither a 64-bit ELF nor a 64-bit Mach-O file"):
        read_symbols(tmp_path / "text.so")
