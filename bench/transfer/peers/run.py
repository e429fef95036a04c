"""Measures kvferry's agents and their peers in one run, in turn, and prints a table of medians.

usage: run.py FOLDER [--rounds N] [--total BYTES] [--out FILE] [--skip NAME,...]"""
import argparse
import datetime
import glob
import json
import os
import pathlib
import statistics
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
root = here.parents[2]
parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path, help="where setup.sh installed, and programs are built")
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--total", type=int, default=256 << 20)
parser.add_argument("--out", type=pathlib.Path)
parser.add_argument("--skip", default="")
o = parser.parse_args()
blocks = [4096, 16384, 65536, 262144]


def build():
    env = dict(os.environ, CGO_ENABLED="0")
    for name, package in (("kvferry", "./cmd/kvferry"), ("plain", "./bench/transfer/peers/plain")):
        subprocess.run(["go", "build", "-tags", "nixl", "-o", o.folder / name, package], cwd=root, env=env, check=True)


def library():
    found = glob.glob(str(o.folder / "nixl/lib/python3*/site-packages/.nixl_cu12.mesonpy.libs/libnixl_capi.so"))
    return found[0] if found else ""


def kvferry(agents, ops="write,read", **env):
    args = [o.folder / "kvferry", "bench", "transfer", "--json", "--rounds=1", "--pings=0", f"--agents={agents}", f"--ops={ops}",
            f"--total={o.total}", "--blocks=" + ",".join(map(str, blocks))]
    return args, env


def python(which, script, *args, **env):
    return [o.folder / which / "bin/python", here / script, *args], env


def contenders():
    sizes = list(map(str, blocks))
    total = str(o.total)
    tcp = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
    all = {
        "memcpy": ([o.folder / "plain", "memcpy", total, *sizes], {}),
        "sockets 1": ([o.folder / "plain", "sockets", total, "1", *sizes], {}),
        "sockets 2": ([o.folder / "plain", "sockets", total, "2", *sizes], {}),
        "kvferry shm": kvferry("shm"),
        "kvferry tcp": kvferry("tcp"),
        "kvferry tcp:2": kvferry("tcp:2"),
        "Mooncake tcp": python("mooncake", "mooncake_peer.py", "Mooncake tcp", total, *sizes),
    }
    for kind, env in (("cma", {"UCX_TLS": "all", "UCX_NET_DEVICES": "lo"}), ("tcp", tcp)):
        for op in ("write", "read"):
            name = f"NIXL {kind} {op}"
            all[name] = python("nixl", "nixl_peer.py", f"NIXL {kind}", total, op, *sizes, **env)
        all[f"kvferry nixl {kind}"] = kvferry("nixl", **env)
    return {n: c for n, c in all.items() if n not in o.skip.split(",")}


def results(name, args, env):
    env = dict(os.environ, KVFERRY_NIXL_LIB=library(), **env)
    done = subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it says nothing"])[-1])
    if name.startswith("kvferry"):
        for r in json.loads(done.stdout)["transfers"]:
            yield name, r["op"], r["block_bytes"], r["bytes_per_second"], r["bytes_per_cpu_second"]
        return
    for text in done.stdout.splitlines():
        if text.startswith("{"):
            r = json.loads(text)
            yield r["name"], r["op"], r["block"], r["bytes"] / r["seconds"], r["bytes"] / max(r["cpu"], 1e-6)


def measure():
    samples, left = {}, contenders()
    for round in range(o.rounds):
        for name, (args, env) in list(left.items()):
            print(f"round {round + 1} of {o.rounds}: {name}", file=sys.stderr)
            try:
                for who, op, block, rate, per in results(name, args, env):
                    samples.setdefault((who, op), {}).setdefault(block, []).append((rate, per))
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as e:
                print(f"{name} is left out: {e}", file=sys.stderr)
                del left[name]
    return samples


def table(samples):
    head = "| | " + " | ".join(f"{b >> 10} KiB" for b in blocks) + " |\n|---|" + "---|" * len(blocks) + "\n"
    text = f"{o.total >> 20} MiB in permuted blocks, medians of {o.rounds} rounds in turn, {datetime.date.today()}, {os.cpu_count()} cores.\n"
    for title, i in (("GB/s", 0), ("GB a CPU second, both processes", 1)):
        text += f"\n## {title}\n\n{head}"
        for (who, op), by in samples.items():
            cells = [f"{statistics.median(s[i] for s in by[b]) / 1e9:.2f}" if b in by else "" for b in blocks]
            text += f"| {who}, {op} | " + " | ".join(cells) + " |\n"
    return text


build()
text = table(measure())
print(text)
if o.out:
    o.out.write_text("# Transfer agents and their peers\n\nMade by `bench/transfer/peers/run.py`.\n\n" + text)
