"""Vectors: .npy and .npz."""

from __future__ import annotations

import ast
import io
import json
import struct
import zipfile
from random import Random

import numpy as np

from references import Refusal, expect
from samples import IDS, Case, Kind, damage


def _vectors(rng: Random, kind: str) -> Case:
    ids = rng.sample(IDS, rng.randint(1, 6))
    kinds = ["<f4", "<f8", ">f8", "<i4", "|u1", "<f2", "|b1", "<U4", "<c16"]
    matrix = np.array([[rng.randint(1, 9) for _ in range(3)] for _ in ids]).astype(
        rng.choice(kinds[:4] if rng.random() < 0.8 else kinds)
    )
    out = io.BytesIO()
    if kind.endswith("npz"):
        np.savez_compressed(out, ids=np.array(ids), vectors=matrix)
    else:
        np.save(out, np.asfortranarray(matrix) if rng.random() < 0.2 else matrix)
    data, damaged = damage(rng, out.getvalue(), lines=False)
    return Case(kind, f"data.{kind[-3:]}", json.dumps({"ids": ids, "data": data.hex()}).encode(), damaged)


def read_vectors(data: bytes, kind: str) -> dict[str, list[float]] | None:
    """The vectors by id; None where the file is odd in a way that numpy decides."""
    try:
        case = json.loads(data)
        raw = bytes.fromhex(case["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(str(error)) from None
    if not kind.endswith("npz"):
        return dict(zip(case["ids"], _matrix(raw, len(case["ids"])), strict=True))
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as parts:
            return dict(zip(case["ids"], _matrix(parts.read("vectors.npy"), len(case["ids"])), strict=True))
    except Exception as error:
        raise Refusal(str(error)) from None


def _matrix(raw: bytes, rows: int) -> list[list[float]]:
    expect(raw[:8] == b"\x93NUMPY\x01\x00" and len(raw) > 10, "not .npy")
    size = struct.unpack("<H", raw[8:10])[0]
    try:
        head = ast.literal_eval(raw[10 : 10 + size].decode("latin-1").strip())
        shape, order, kind = head["shape"], head["fortran_order"], head["descr"]
        assert len(shape) == 2
    except Exception as error:
        raise Refusal(str(error)) from None
    expect(shape[0] == rows and shape[1] > 0, "as many rows as ids")
    codes = {
        "f2": "e",
        "f4": "f",
        "f8": "d",
        "u1": "B",
        "i1": "b",
        "i2": "h",
        "i4": "i",
        "i8": "q",
        "u2": "H",
        "u4": "I",
        "u8": "Q",
    }
    expect(kind[1:] in codes, "numbers")
    count = shape[0] * shape[1]
    try:
        mark = ">" if kind[0] == ">" else "<"
        values = struct.unpack_from(f"{mark}{count}{codes[kind[1:]]}", raw, 10 + size)
    except struct.error as error:
        raise Refusal(str(error)) from None
    if order:
        return [list(map(float, values[i :: shape[0]])) for i in range(shape[0])]
    return [list(map(float, values[i : i + shape[1]])) for i in range(0, count, shape[1])]


KINDS = {kind: Kind(_vectors, read_vectors) for kind in ("embeddings npy", "embeddings npz")}
