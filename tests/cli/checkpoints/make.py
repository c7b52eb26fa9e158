#!/usr/bin/env python3
"""Writes the checkpoints beside it, from what docs/checkpoint.md says and nothing else.

usage: tests/cli/checkpoints/make.py
"""
import array
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def checkpoint(metadata, tensors):
    """The bytes of a file; tensors are (name, dtype, shape, values), in the order of the file."""
    data, listed = b"", {}
    for name, dtype, shape, values in tensors:
        begin = len(data)
        data += array.array({"F32": "f", "U64": "Q"}[dtype], values).tobytes()
        listed[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    sums = {"crc32c": f"{crc32c(data):08x}", "header_crc32c": "00000000"}
    header = json.dumps({"__metadata__": {**metadata, **sums}, **listed}).encode()
    header += b" " * (-len(header) % 8)
    header = len(header).to_bytes(8, "little") + header
    return header.replace(b'_crc32c": "00000000"', b'_crc32c": "%08x"' % crc32c(header)) + data


def night(clock):
    """An MLP with momentum that keeps its place in the data."""
    layers = [("fc1", 4, 6, True), ("fc2", 2, 4, False)]
    metadata = {"format": "trident.checkpoint.1", "job": "night", "optimizer": "momentum:0.9",
                "library": "0.1.0", "clock": str(clock), "states": "1"}
    metadata.update({f"steps.{name}": str(clock) for name, *_ in layers})
    metadata.update({"kept.norm.mean": "F32", "kept.data.position": "U64"})
    tensors = [("data.position", "U64", [2], [clock // 7, clock % 7])]
    for before in ("", "optim.0."):
        for name, rows, cols, bias in layers:
            tensors.append((f"{before}{name}.weight", "F32", [rows, cols],
                            [(clock + i) / 64 for i in range(rows * cols)]))
            if bias:
                tensors.append((f"{before}{name}.bias", "F32", [rows], [-0.5] * rows))
    tensors.append(("norm.mean", "F32", [3], [0.25, 0.5, 0.75]))
    return checkpoint(metadata, tensors)


def put(path, data):
    path = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


for clock in (100, 200):
    put(f"night/clock-{clock:012}.safetensors", night(clock))
whole = night(300)
put("night/clock-000000000300.safetensors", whole[:-5] + bytes([whole[-5] ^ 4]) + whole[-4:])
put("other/clock-000000000100.safetensors", night(100)[:-9])
later = night(200).replace(b"checkpoint.1", b"checkpoint.2").replace(b"0.1.0", b"0.9.0")
put("other/clock-000000000200.safetensors", later)
