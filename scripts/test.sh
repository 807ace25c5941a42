#!/usr/bin/env bash
# The one test command: installs what the tests need, runs everything, and ends with one line, "N passed, N failed".
#
# A step that fails doesn't stop the others. The counts are the runners' own; a step that fails without a failed test counts as one failure.
# Needs Rust (1.95, as Cargo.toml says), a C compiler for SQLite, and Node 20 or later with npm.

set -u
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never NO_COLOR=1 CARGO_TERM_PROGRESS_WHEN=never
# No test reaches any address but loopback: the program itself refuses it.
export GROK_BOT_TEST=1
unset UPDATE_SCHEMAS

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0
failed=0
steps=""

# Adds up what the runners say of themselves. Each has its own line:
#   nextest     "Summary [   9.1s] 345 tests run: 340 passed (2 slow), 3 failed, 2 timed out, 1 skipped"
#   cargo test  "test result: ok. 3 passed; 0 failed; 0 ignored; …"
#   node        "# pass 12" and "# fail 0" (with an ℹ instead where it writes for a terminal)
count() {
  awk '
    function number(pattern, text) {
      return match(text, "[0-9]+ " pattern) ? substr(text, RSTART) + 0 : 0
    }
    / tests? run: / { pass += number("passed", $0); fail += number("failed", $0) + number("timed out", $0) + number("exec failed", $0) }
    /^test result: / { pass += number("passed", $0); fail += number("failed", $0) }
    /^(#|ℹ) pass [0-9]+$/ { pass += $3 }
    /^(#|ℹ) (fail|cancelled) [0-9]+$/ { fail += $3 }
    END { print pass + 0, fail + 0 }
  ' "$1"
}

# step NAME COMMAND…: runs one step.
step() {
  local name=$1 log="$logs/step" from=$SECONDS code result
  shift
  printf '\n==> %s\n' "$name"
  "$@" < /dev/null 2>&1 | tee "$log"
  code=${PIPESTATUS[0]}
  read -r pass fail <<< "$(count "$log")"
  [ "$code" -ne 0 ] && [ "$fail" -eq 0 ] && fail=1
  passed=$((passed + pass))
  failed=$((failed + fail))
  result=ok
  [ "$fail" -ne 0 ] && result=FAILED
  steps="$steps$(printf '%-8s %4ss  %s' "$result" "$((SECONDS - from))" "$name")
"
}

have() { command -v "$1" > /dev/null 2>&1; }

# Everything that Cargo.lock and the package-locks name, and nothing newer.
node_modules() {
  local folder=$1
  [ -f "$folder/package-lock.json" ] || return 0
  # npm writes this file last.
  [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ] && return 0
  npm ci --prefix "$folder" --no-audit --no-fund
}

# The browser of the page's tests, where it is missing and may be installed.
browser() {
  have chromium && have chromedriver && return 0
  if [ "$(id -u)" -eq 0 ] && have apt-get; then
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver
  else
    echo 'chromium and chromedriver are missing: install them (on Debian: apt-get install chromium chromium-driver)'
    return 1
  fi
}

# The test files under a folder, one a line. Node 20 takes no patterns, and a bare folder means different things to its versions.
test_files() {
  find "$1" -name node_modules -prune -o -type f -name '*.test.mjs' -print | sort
}

node_tests() {
  local files
  files=$(test_files "$1")
  [ -n "$files" ] || { echo "no test under $1"; return 1; }
  # No file name of ours holds a space.
  # shellcheck disable=SC2086
  node --test --test-reporter=tap $files | awk '/^# (tests|pass|fail|cancelled|skipped|duration_ms) / || /^ *not ok / || broken { print } /^ *not ok /{ broken = 1 } /^ *ok /{ broken = 0 }'
  return "${PIPESTATUS[0]}"
}

step 'cargo fmt' cargo fmt --check
step 'cargo clippy' cargo clippy --locked --all-targets -- -D warnings
# The plugin's program leaves out the simulated service and the page: nothing else here compiles it so.
step 'cargo clippy, of the plugin' cargo clippy --locked --no-default-features --lib --bins -- -D warnings
# The schemas under schemas/ are held against the contract's types by a test of these (host::schemas).
if have cargo-nextest; then
  step 'cargo nextest' cargo nextest run --locked --profile ci
else
  step 'cargo test' cargo test --locked --lib --bins --tests --no-fail-fast
fi
step 'doctests' cargo test --locked --doc
# Read by whoever changes the program, so private items are in it, and links to them are good ones.
step 'cargo doc' env RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --locked --no-deps --document-private-items

# The binary that the Rust tests were run with.
target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
[ -x "$target/debug/coda-grok-bot" ] || step 'cargo build' cargo build --locked
export CODA_GROK_BOT_BINARY="$target/debug/coda-grok-bot"

for folder in tests/package tests/remote tests/preview; do
  [ -d "$folder" ] || continue
  step "npm ci: $folder" node_modules "$folder"
  [ "$folder" = tests/preview ] && step 'browser' browser
  step "node --test: $folder" node_tests "$folder"
done

if have cargo-deny; then
  # Not offline: it reads the crates of every platform, and a build has fetched only those of this one.
  step 'cargo deny' cargo deny --locked check bans licenses sources
fi

printf '\n%s\n%s passed, %s failed\n' "$steps" "$passed" "$failed"
[ "$failed" -eq 0 ]
