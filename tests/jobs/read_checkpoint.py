"""Opens a checkpoint, or any other file of F32 and U64 tensors, and prints what it holds.

usage: read_checkpoint.py FILE.safetensors
"""
import array
import json
import sys


def read_checkpoint(path):
    """Its metadata, and by name the shape and the values of each tensor."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        values = array.array({"F32": "f", "U64": "Q"}[tensor["dtype"]], data[begin:end])
        tensors[name] = tensor["shape"], values  # little-endian, as this machine is
    return metadata, tensors


if __name__ == "__main__":
    metadata, tensors = read_checkpoint(sys.argv[1])
    for key, text in metadata.items():
        print(f"{key}: {text}")
    for name, (shape, values) in tensors.items():
        print(name, shape, *values[:8], *["..."] * (len(values) > 8))
