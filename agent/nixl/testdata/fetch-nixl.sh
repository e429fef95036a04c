#!/bin/sh
# Installs NIXL's wheel, and nothing that it would like beside it, into a folder, and prints where its library is.
# Needs Python 3 with pip. Usage: fetch-nixl.sh FOLDER
set -eu
folder=${1:?usage: fetch-nixl.sh FOLDER}
python=${PYTHON:-python3}
if [ ! -d "$folder/nixl_cu12" ]; then
  "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$folder" nixl-cu12==1.5.1
fi
echo "$folder/.nixl_cu12.mesonpy.libs/libnixl_capi.so"
