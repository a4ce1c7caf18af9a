# Debian roots beside this machine, made by debootstrap and entered with chroot: for bin/trixie, bin/modern and test/fresh/run, which source it.
#
# It reads root (where the root lies), suite (bookworm, trixie, sid), binds (an array: what is the machine's own in there, each PATH or FROM:TO), cache (a folder that keeps
# downloaded packages; empty: none) and contained (yes: a PID namespace, too). Mounts live in a mount namespace, and vanish with the command, however it ends. With a PID
# namespace all that the command has started is ended with it; without one the command keeps the caller's pid, and gets its signals.
# shellcheck shell=bash disable=SC2154

# The mirror that this machine uses itself.
mirror() {
  local found
  found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -oE '^(deb +(\[[^]]*\] *)?|URIs: *)https?://[^ ]+' | grep -oE 'https?://[^ ]+' |
    grep -E '/debian/?$' | head -n1) || true
  printf '%s\n' "${found:-http://deb.debian.org/debian}"
}

# What the machine knows about reaching its mirror (proxies, certificates) holds in there too.
copy_settings() {
  local from
  mkdir -p "$root/etc/apt/apt.conf.d"
  for from in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    [ -f "$from" ] || continue
    grep -qiE 'proxy|Check-(Valid-Until|Date)|Verify-|CaInfo' "$from" && cp "$from" "$root/etc/apt/apt.conf.d/$(basename "$from")"
  done
  cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
  cp -L /etc/hosts "$root/etc/hosts" 2>/dev/null || true
  echo "deb $(mirror) $suite main" > "$root/etc/apt/sources.list"
  # What is not released gets no updates.
  [ "$suite" = sid ] || cat >> "$root/etc/apt/sources.list" <<LIST
deb $(mirror) $suite-updates main
deb $(mirror)-security $suite-security main
LIST
  printf 'Acquire::Languages "none";\nAPT::Install-Recommends "false";\nAPT::Install-Suggests "false";\n' > "$root/etc/apt/apt.conf.d/90paceline"
  printf 'force-unsafe-io\npath-exclude /usr/share/doc/*\npath-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\n' > "$root/etc/dpkg/dpkg.cfg.d/90paceline"
  # No service starts when its package is installed.
  printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
}

# make_root LOG: a bare Debian, of today's archive. debootstrap mounts things, too: in a namespace, like everything else.
make_root() {
  rm -rf "$root"
  mkdir -p "$root" ${cache:+"$cache"}
  unshare -m --propagation private --pid --fork --kill-child \
    debootstrap --variant=minbase ${cache:+--cache-dir="$cache"} "$suite" "$root" "$(mirror)" >> "$1" 2>&1 || return
  copy_settings
}

# A root that stays, with packages that are installed once: for bin/trixie and bin/modern, which bring say, fail and an array of packages, too.

as_root() {
  [ "$(id -u)" = 0 ] || fail "a chroot needs root: run it with sudo"
}

# The stamp changes with the list of packages, so that a longer list is installed into a root that stands already.
stamp() { printf '%s\n' "${packages[@]}" "$@" | sha256sum | cut -c1-16; }

# Whether this list has been installed. stood MORE...: what else has been done there.
stood() { [ -e "$root/.paceline-$(stamp "$@")" ]; }
stands() { touch "$root/.paceline-$(stamp "$@")"; }

# The bare Debian, unless it is there.
stand_up() {
  command -v debootstrap >/dev/null || fail "debootstrap is missing: run bin/setup test"
  [ -e "$root/.paceline-base" ] || { make_root "$root.log" && touch "$root/.paceline-base"; }
}

# install_packages PACKAGE...: no question is asked, since the tests bring a Redmine database of their own.
install_packages() {
  copy_settings
  (inside / sh -ec '
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -qy debconf
    echo "redmine redmine/instances/default/dbconfig-install boolean false" | debconf-set-selections
    apt-get install -qy --no-install-recommends "$@"
    apt-get clean
  ' sh "$@") >> "$root.log" 2>&1
}

# inside DIR CMD...: runs CMD in the root, in DIR if that is there.
inside() {
  PACELINE_ROOT=$root PACELINE_BINDS=$(printf '%s\n' "${binds[@]}" ${cache:+"$cache:/var/cache/apt/archives"}) \
    exec unshare -m --propagation private ${contained:+--pid --fork --kill-child} bash -euc '
    root=$PACELINE_ROOT dir=$1; shift
    mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    while IFS=: read -r from to; do
      [ -n "$from" ] || continue
      mkdir -p "$root${to:-$from}"
      mount --bind "$from" "$root${to:-$from}"
    done <<< "$PACELINE_BINDS"
    unset PACELINE_ROOT PACELINE_BINDS
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
    unset GEM_HOME GEM_PATH RUBYLIB RUBYOPT
    exec chroot "$root" bash -c "cd \"\$1\" 2>/dev/null || cd /; shift; exec \"\$@\"" bash "$dir" "$@"
  ' bash "$@"
}
