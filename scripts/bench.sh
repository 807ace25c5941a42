#!/usr/bin/env bash
# The one benchmark command: builds the program as the plugin has it, installs the peers, measures everything, and writes docs/benchmarks.md.
#
#   scripts/bench.sh [--quick] [--rounds N] [--idle SECONDS] [--binary FILE] [--out FILE] [-- ARGUMENTS OF cargo build]
#
# --quick measures little of everything, to see that it works; its figures are no result. --binary takes a binary that is built already.
# Needs what scripts/test.sh needs, and Python 3.9 or later. Takes about half an hour and 6 GB of memory; run it on a machine that has nothing else to do.

set -eu
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never GROK_BOT_TEST=1

rounds=5 idle=600 binary='' out=docs/benchmarks.md quick=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --rounds) rounds=$2; shift ;;
    --idle) idle=$2; shift ;;
    --binary) binary=$2; shift ;;
    --out) out=$2; shift ;;
    --) shift; break ;;
    *) sed -n '4,7s/^# *//p' "$0" >&2; exit 2 ;;
  esac
  shift
done

target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
# `cargo bench` builds the program too, with the features of the dependencies of tests, and puts it in the same place: the real one is kept apart.
mkdir -p "$target/bench"
if [ -z "$binary" ]; then
  # As scripts/build-plugin.mjs does.
  cargo build --locked --release --no-default-features --bin coda-grok-bot "$@"
  cp "$target/release/coda-grok-bot" "$target/bench/coda-grok-bot"
  binary=$target/bench/coda-grok-bot
fi
CODA_GROK_BOT_BINARY=$(realpath "$binary")
export CODA_GROK_BOT_BINARY
cargo bench --locked --bench process --bench rooms --no-run
benches/peers/install.sh

results=$(mktemp)
trap 'rm -f "$results"' EXIT
began=$(date -u +'%Y-%m-%d %H:%M')
load=$(cut -d' ' -f1-3 /proc/loadavg)
if [ -n "$quick" ]; then
  cargo bench --locked --bench process -- --rounds 1 --rows 500 --live-rows 5000 --long 20000 --idle 5 --peers >> "$results"
  cargo bench --locked --bench rooms -- --rounds 1 --messages 40000 >> "$results"
else
  cargo bench --locked --bench process -- --rounds "$rounds" --idle "$idle" --peers >> "$results"
  cargo bench --locked --bench rooms -- --rounds "$rounds" >> "$results"
fi

# How often the tables say something.
said() { grep '^|' "$results" | grep -o "$1" | wc -l; }
missed=$(said 'not reached')
# What people wrote below the tables stays.
notes=$(sed -n '/^One commit a tick/,$p' docs/benchmarks.md)

{
  cat <<'END'
# Benchmarks

What the program costs, measured and held against what it must reach. Written by `scripts/bench.sh`, which anyone can run; single parts by `cargo bench --bench process -- list` and the like
(`benches/process/main.rs` and `benches/rooms/main.rs` say which there are).

**The floor** is a process that reads the same bytes from the same server over HTTP/1.1 with the same HTTP library, splits envelopes, decodes base64, parses each body by serde into the smallest typed struct, and drops it:
what no client of this kind can do without. **The peers** (`benches/peers/`) are the shortest honest mirrors that a user would write on Node with the official client's stack, on Node's own fetch, and in
Python with httpx: texts in maps by id, an order, nothing durable. The server is a process of its own, and its work is nobody's.

All clients of a round run in turn, so that whatever else the machine does falls on each of them. **CPU** is user and system time of the whole process with its start, since wall time says little on a shared
machine; ratios are taken inside a round. A value is the median of the rounds, with the least and the largest behind it. Rows are about 1 KiB of JSON, Chinese and English mixed, a tenth of them tool calls.
END
  printf '\n| | |\n| --- | --- |\n'
  printf '| date | %s UTC to %s |\n' "$began" "$(date -u +%H:%M)"
  printf '| machine | %s, %s cores, %s GiB, %s |\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" \
    "$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)" "$(uname -sr)"
  printf '| others on it | load %s before, %s after |\n' "$load" "$(cut -d' ' -f1-3 /proc/loadavg)"
  printf '| versions | %s; Node %s; %s; %s |\n' "$(rustc --version)" "$(node --version)" "$(python3 --version)" \
    "$(sed -n 's/^ *"\(@connectrpc\/connect-node\)": "\(.*\)".*/\1 \2/p' benches/peers/connect-node/package.json)"
  printf '| program | %s, %s |\n' "$("$CODA_GROK_BOT_BINARY" --version)" "$(git describe --always --dirty 2> /dev/null || echo 'no repository')"
  printf '| verdicts | %s reached, %s not |\n' "$(($(said reached) - missed))" "$((missed))"
  [ -z "$quick" ] || printf '\n**Measured with --quick: these figures are no result.**\n'
  cat "$results"
  printf '\n%s\n' "$notes"
} > "$out"
echo "written to $out"
