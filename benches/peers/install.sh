#!/usr/bin/env bash
# Installs what the peers need, into their own folders: nothing of the system is changed. Needs Node 20 or later with npm, and Python 3.9 or later.

set -eu
cd "$(dirname "$0")"

npm ci --prefix connect-node --no-audit --no-fund
[ -x python-httpx/.venv/bin/python ] || python3 -m venv python-httpx/.venv
python-httpx/.venv/bin/python -m pip install --quiet --disable-pip-version-check -r python-httpx/requirements.txt
