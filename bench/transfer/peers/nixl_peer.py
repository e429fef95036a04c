"""One round of NIXL by its own Python interface, with lists that are prepared once.

usage: nixl_peer.py NAME TOTAL OP BLOCK...    The transport is UCX_TLS's."""
import base64
import os
import sys
import zlib

import nixl_cu12 as nixl
import numpy as np

from common import Peer, cpu, memory, moved, now, permutations, say

total = int(sys.argv[2])


def agent(name, seed):
    a = nixl.nixl_agent(name, nixl.nixl_agent_config(enable_prog_thread=False, backends=[]))
    a.create_backend("UCX", {})
    mapping, at = memory(total, seed)
    a.register_memory(a.get_reg_descs([(at, total, 0, "")], "DRAM"))
    return a, mapping, at


def descs(at, block):
    d = np.zeros((total // block, 3), dtype=np.uint64)
    d[:, 0] = at + np.arange(total // block, dtype=np.uint64) * np.uint64(block)
    d[:, 1] = block
    return d


def target():
    a, mapping, at = agent("target", 1)
    print("card", base64.b64encode(a.get_agent_metadata()).decode(), at, flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "card":
            a.add_remote_agent(base64.b64decode(rest[0]))
            print("ok 1", flush=True)
        elif word == "progress":  # a target must ask, or nothing moves over TCP
            while not a.get_new_notifs():
                pass
            print("told", cpu(), flush=True)
        elif word == "cpu":
            print("cpu", cpu(), flush=True)
        elif word == "sum":
            print("sum", zlib.crc32(mapping), flush=True)
    os._exit(0)


def main():
    name, op = sys.argv[1], sys.argv[3]
    peer = Peer("target", str(total))
    a, mapping, at = agent("initiator", 2)
    card, there = peer.read("card")
    remote = a.add_remote_agent(base64.b64decode(card))
    remote = remote if isinstance(remote, str) else remote.decode()
    peer.ask("card " + base64.b64encode(a.get_agent_metadata()).decode(), "ok")
    for block in map(int, sys.argv[4:]):
        mine, its = permutations(total // block, block)
        local, far = a.prep_xfer_dlist("", descs(at, block), "DRAM"), a.prep_xfer_dlist(remote, descs(int(there), block), "DRAM")
        for round in range(2):  # the first one warms up
            h = a.make_prepped_xfer(op.upper(), local, mine, far, its, b"done")
            used = cpu() + float(peer.ask("cpu", "cpu")[0])
            peer.process.stdin.write("progress\n")
            peer.process.stdin.flush()
            began = now()
            state = a.transfer(h)
            while state == "PROC":
                state = a.check_xfer_state(h)
            if state != "DONE":
                sys.exit("NIXL: " + state)
            theirs = float(peer.read("told")[0])
            seconds = now() - began
            used = cpu() + theirs - used
            a.release_xfer_handle(h)
        if op == "write" and int(peer.ask("sum", "sum")[0]) != moved(mapping, total, block, mine, its):
            sys.exit("NIXL: the target's bytes are wrong")
        say(name, op, block, total, seconds, used)
        a.release_dlist_handle(local)
        a.release_dlist_handle(far)
    peer.end()
    os._exit(0)


if sys.argv[1] == "target":
    target()
main()
