# Bare Debian roots for the tests of packages, which source this: made once by debootstrap, kept, and covered by an overlay for each test, so that none sees
# what another did. Beside debian-root.bash's variables it reads `work`, a folder for overlays.
# shellcheck shell=bash disable=SC2154,SC2034

keep=${PACELINE_PACKAGE_ROOTS:-/var/cache/paceline/package-roots}
cache='' contained='' binds=()
# What a new user's machine has: Ruby, Rails and SQLite, no compiler and no cargo.
packages=(ca-certificates curl iproute2 procps ruby ruby-bundler ruby-rails ruby-sqlite3 puma ruby-webrick systemd adduser)

# base SUITE: the kept root of that suite, in `root`.
base() {
  suite=$1 root=$keep/$1
  local stamp
  stamp=$root/.$(printf '%s\n' "${packages[@]}" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return
  mkdir -p "$keep"
  exec 8> "$keep/.making"
  flock 8
  [ ! -e "$stamp" ] || return 0
  cache=${PACELINE_DEBS:-/var/cache/paceline/debs}/$suite
  mkdir -p "$cache"
  { make_root "$root.log" && (inside / sh -c 'export DEBIAN_FRONTEND=noninteractive; apt-get update -q && apt-get install -qy "$@" && apt-get clean' sh "${packages[@]}"); } \
    >> "$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; echo "making $root failed; the whole of it is in $root.log" >&2; return 1; }
  cache=
  touch "$stamp"
  exec 8>&-
}

# fresh NAME: covers the kept root, so that `root` is a copy of it. To be called in a mount namespace of the test's own.
fresh() {
  mkdir -p "$work/$1"/{upper,inner,root}
  mount -t overlay overlay -o "lowerdir=$keep/$suite,upperdir=$work/$1/upper,workdir=$work/$1/inner" "$work/$1/root"
  root=$work/$1/root
}
