# Installs the plain gem on this machine, which has a compiler: the native part's half in C is compiled, without cargo and without a network. For test/packaging/run,
# which sources it.
# shellcheck shell=bash disable=SC2154

version=$(sed -nE 's/.*VERSION = "([^"]+)".*/\1/p' "$here/gem/lib/paceline/version.rb")
env -i PATH=/usr/bin:/bin HOME="$work" GEM_HOME="$work/gems" GEM_PATH="$work/gems" sh -c '
  gem install --local --no-document "$1" > "$2/log" 2>&1 &&
    exec ruby -W0 -e "require %q(rubygems); gem %q(paceline); require %q(paceline/native); exit Paceline::Native.respond_to?(:respond)"
' sh "${3:-$here/dist}/paceline-$version.gem" "$work" || {
  cat "$work/log"
  echo "test/packaging/run: the plain gem is not compiled when it is installed" >&2
  exit 1
}
