"""Opens FILE.safetensors and prints a line per tensor: name, shape, sum. Plain Python.

usage: read_model.py FILE.safetensors
"""
import array
import json
import sys

with open(sys.argv[1], "rb") as file:
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(length))
    data = file.read()

print("format", header.pop("__metadata__")["format"])
for name, tensor in header.items():
    begin, end = tensor["data_offsets"]
    assert tensor["dtype"] == "F32"
    values = array.array("f", data[begin:end])  # little-endian, as this machine is
    print(name, tensor["shape"], f"{sum(values):.6f}")
