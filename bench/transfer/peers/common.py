"""What the peers' programs share: memory, permutations, and the lines that run.py reads."""
import ctypes
import json
import mmap
import resource
import sys
import time
import zlib

import numpy as np


def memory(total, seed):
    """A mapping full of bytes that tell places apart, its address, and its view."""
    mapping = mmap.mmap(-1, total)
    view = np.frombuffer(mapping, dtype=np.uint64)
    view[:] = np.arange(total // 8, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    return mapping, ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def permutations(blocks, block):
    rnd = np.random.default_rng(block)
    return rnd.permutation(blocks), rnd.permutation(blocks)


def moved(source, total, block, here, there):
    """The sum of a memory after the blocks moved."""
    blocks = np.frombuffer(source, dtype=np.uint8).reshape(total // block, block)
    out = np.empty_like(blocks)
    out[there] = blocks[here]
    return zlib.crc32(out)


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def say(name, op, block, total, seconds, used):
    print(json.dumps({"name": name, "op": op, "block": block, "bytes": total, "seconds": seconds, "cpu": used}), flush=True)


class Peer:
    """The other process: the same program with more arguments, asked by lines."""

    def __init__(self, *args):
        import subprocess

        self.process = subprocess.Popen(
            [sys.executable, sys.argv[0], *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def read(self, mark):
        for line in self.process.stdout:
            if line.startswith(mark + " "):
                return line.split()[1:]
        sys.exit("the peer ended")

    def ask(self, question, mark):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.read(mark)

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)


def now():
    return time.perf_counter()
