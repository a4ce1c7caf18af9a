# For the tests that run inside a root: assertions, and waiting for a server.
# shellcheck shell=bash
set -euo pipefail
say() { printf '==> %s (%d s)\n' "$*" "$SECONDS"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; [ -z "${log:-}" ] || { head -n 8 "$log"; tail -n 30 "$log"; } >&2; exit 1; }

# has TEXT FILE|-: an extended regular expression that a line must match.
has() {
  local text
  text=$(cat "$2")
  grep -Eq -- "$1" <<< "$text" || fail "no line with $1 in:"$'\n'"$text"
}
lacks() { ! command -v "$1" > /dev/null || fail "$1 is on this machine, and a new user may not have it"; }

# wait_for URL: until it answers with 2xx, for as long as the server in the background lives, and a minute at most.
wait_for() {
  local limit=$((SECONDS + 60))
  until curl -sf -o /tmp/answer -D /tmp/head "$1"; do
    kill -0 "$server" 2> /dev/null || fail "the server ended before it answered $1"
    [ $SECONDS -lt $limit ] || fail "the server did not answer $1 with 2xx in a minute"
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

mirror=http://127.0.0.1:9299

# new_rails_application NAME OPTION...: /srv/NAME, with Debian's gems and Puma, which is the current folder then. OPTIONs are those of `rails new`.
new_rails_application() {
  local name=$1 rails
  shift
  # Debian's Bundler takes a gem without a folder for deleted (bin/setup says more).
  ruby -rbundler -e '
    deleted = %i[deleted_gem? installation_missing?].find { |name| Gem::Specification.method_defined?(name) } or exit
    require "fileutils"
    Gem::Specification.select(&deleted).map(&:full_gem_path).grep(%r{/rubygems-integration/}).uniq.each { |folder| FileUtils.mkdir_p(folder) }'
  cd /srv
  rails new "$name" --minimal --skip-bundle --skip-git --skip-bootsnap --skip-test --skip-system-test --skip-javascript --skip-sprockets --skip-asset-pipeline "$@" > /tmp/new.log 2>&1 ||
    { cat /tmp/new.log; fail "rails new"; }
  cd "$name"
  rails=$(ruby -e 'gem "railties"; require "rails/version"; print Rails::VERSION::STRING')
  printf 'source "https://rubygems.org"\ngem "rails", "%s"\ngem "puma"\n' "$rails" > Gemfile
  printf 'Rails.application.routes.draw { root to: ->(env) { [200, { "content-type" => "text/plain" }, ["served by #{env["SERVER_SOFTWARE"]}"]] } }\n' > config/routes.rb
  sed -i '/require "bootsnap/d' config/boot.rb
  sed -i "/EventedFileUpdateChecker/d" config/environments/development.rb
  bundle config set --global mirror.https://rubygems.org $mirror
  bundle install --local > /tmp/bundle.log 2>&1 || { cat /tmp/bundle.log; fail "bundle install --local of Debian's gems"; }
}
