# For the tests that run inside a root: assertions, and waiting for a server.
# shellcheck shell=bash
set -euo pipefail
say() { printf '==> %s (%d s)\n' "$*" "$SECONDS"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; [ -z "${log:-}" ] || { head -n 8 "$log"; tail -n 30 "$log"; } >&2; exit 1; }

# has TEXT FILE|-: an extended regular expression that a line must match.
has() { grep -Eq -- "$1" "$2" || { cat "$2" >&2; fail "$2 has no line with $1"; }; }
lacks() { ! command -v "$1" > /dev/null || fail "$1 is on this machine, and a new user may not have it"; }

# wait_for URL: until it answers, for as long as the server in the background lives.
wait_for() {
  until curl -sf -o /tmp/answer -D /tmp/head "$1"; do
    kill -0 "$server" 2> /dev/null || fail "the server ended before it answered $1"
    sleep 0.1
  done
}

# serve CMD...: in the background, with its output in $log and its pid in $server.
serve() {
  log=$(mktemp)
  "$@" > "$log" 2>&1 &
  server=$!
}

# stop: TERM, and the status must be 0.
stop() {
  local status=0
  kill -TERM "$server"
  wait "$server" || status=$?
  [ "$status" = 0 ] || fail "TERM ended the server with status $status"
}
