"""One round of Mooncake's TransferEngine over TCP, written in batches of 256 blocks.

usage: mooncake_peer.py NAME TOTAL BLOCK..."""
import os
import sys
import zlib

import mooncake.engine

from common import Peer, cpu, memory, moved, now, permutations, say

total = int(sys.argv[2])
batch = 256


def engine(seed):
    e = mooncake.engine.TransferEngine()
    if e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") != 0:
        sys.exit("Mooncake does not start")
    mapping, at = memory(total, seed)
    if e.register_memory(at, total) != 0:
        sys.exit("Mooncake does not register memory")
    return e, mapping, at


def target():
    e, mapping, at = engine(1)
    print("at", e.get_rpc_port(), at, flush=True)
    for line in sys.stdin:
        if line.startswith("cpu"):
            print("cpu", cpu(), flush=True)
        else:
            print("sum", zlib.crc32(mapping), flush=True)
    os._exit(0)


def main():
    e, mapping, at = engine(2)
    peer = Peer("target", str(total))
    port, there = peer.read("at")
    host, there = "127.0.0.1:" + port, int(there)
    for block in map(int, sys.argv[3:]):
        mine, its = permutations(total // block, block)
        sources, targets = [at + int(i) * block for i in mine], [there + int(i) * block for i in its]
        for round in range(2):  # the first one warms up
            used = cpu() + float(peer.ask("cpu", "cpu")[0])
            began = now()
            for i in range(0, len(sources), batch):
                s, t = sources[i : i + batch], targets[i : i + batch]
                if e.batch_transfer_sync_write(host, s, t, [block] * len(s)) != 0:
                    sys.exit("Mooncake: a batch failed")
            seconds = now() - began
            used = cpu() + float(peer.ask("cpu", "cpu")[0]) - used
        if int(peer.ask("sum", "sum")[0]) != moved(mapping, total, block, mine, its):
            sys.exit("Mooncake: the target's bytes are wrong")
        say(sys.argv[1], "write", block, total, seconds, used)
    peer.end()
    os._exit(0)


if sys.argv[1] == "target":
    target()
main()
