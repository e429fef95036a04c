#!/bin/sh
# Installs the peers' wheels into environments of their own. Usage: setup.sh FOLDER
set -eu
folder=${1:?usage: setup.sh FOLDER}
mkdir -p "$folder"
wheel() { # name, package
	[ -x "$folder/$1/bin/python" ] || python3 -m venv "$folder/$1"
	"$folder/$1/bin/pip" install -q --disable-pip-version-check --no-deps "$2" numpy
}
wheel nixl nixl-cu12==1.5.1
wheel mooncake mooncake-transfer-engine-non-cuda==0.3.13
