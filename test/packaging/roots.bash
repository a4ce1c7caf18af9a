# Bare Debian roots for the tests of packages, which source this: made once by debootstrap, kept, and covered by an overlay for each test, so that none sees
# what another did. Beside debian-root.bash's variables it reads `work`, a folder for overlays.
# shellcheck shell=bash disable=SC2154,SC2034

keep=${PACELINE_PACKAGE_ROOTS:-/var/cache/paceline/package-roots}
cache='' contained='' binds=()
# What a new user's machine has: Ruby, Rails and SQLite, no compiler and no cargo.
packages=(ca-certificates curl iproute2 procps ruby ruby-bundler ruby-rails ruby-sqlite3 puma ruby-webrick systemd adduser)

# A second Ruby: for Debian sid that of experimental, if it can be installed today.
second_ruby() {
  case $1 in sid) ;; *) return ;; esac
  echo "deb $(mirror) experimental main" > "$root/etc/apt/sources.list.d/experimental.list"
  (inside / sh -c 'export DEBIAN_FRONTEND=noninteractive; apt-get update -q && apt-get install -qy -t experimental ruby3.4 && apt-get clean') || rm -f "$root/etc/apt/sources.list.d/experimental.list"
}

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
  { make_root "$root.log" && (inside / sh -c 'export DEBIAN_FRONTEND=noninteractive; apt-get update -q && apt-get install -qy "$@" && apt-get clean' sh "${packages[@]}") && second_ruby "$suite"; } \
    >> "$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; echo "making $root failed; the whole of it is in $root.log" >&2; return 1; }
  cache=
  touch "$stamp"
  exec 8>&-
}

# What the Dockerfiles of the tests install. The packages are kept beside the root.
image_packages=(curl libjemalloc2 sqlite3 build-essential git pkg-config libyaml-dev)

# image_base SUITE: a stand-in for the official image of Ruby, with the name of that, in a store of images beside the kept root; a registry is not asked. Its Ruby
# is Debian's, its gems come from the mirror of the test, and its packages from there, too.
image_base() {
  base "$1"
  local stamp container image images=$keep/$1.images debs=$keep/$1.debs
  stamp=$images/.$(cd "$root" && printf '%s\n' .[0-9a-f]* "${image_packages[@]}" "$(declare -f image_base)" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return
  exec 8> "$keep/.making"
  flock 8
  [ ! -e "$stamp" ] || return 0
  rm -rf "$images" "$debs" && mkdir -p "$images" "$debs"
  {
    binds=("$debs:/debs")
    (inside / sh -c 'apt-get update -q && apt-get install -qy --download-only -o Dir::Cache::archives=/debs "$@"' sh "${image_packages[@]}") &&
      rm -rf "$debs/lock" "$debs/partial" && mkdir -p "$debs/dists/test/main/binary-amd64" &&
      (cd "$debs" && dpkg-scanpackages . | sed 's|^Filename: \./|Filename: |' > dists/test/main/binary-amd64/Packages) &&
      container=$(buildah --root "$images" --runroot "$images/run" from scratch) && image=$(buildah --root "$images" --runroot "$images/run" mount "$container") &&
      tar -C "$root" --one-file-system --exclude './var/lib/apt/lists/*' --exclude './usr/share/ri' -cf - . | tar -C "$image" -xpf - &&
      mkdir -p "$image/root/.bundle" && printf -- '---\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: "http://127.0.0.1:9299"\n' > "$image/root/.bundle/config" &&
      echo 'deb [trusted=yes] http://127.0.0.1:9299/debian test main' > "$image/etc/apt/sources.list" &&
      buildah --root "$images" --runroot "$images/run" config --env GEM_HOME=/usr/local/bundle --env BUNDLE_APP_CONFIG=/usr/local/bundle --env BUNDLE_SILENCE_ROOT_WARNING=1 \
        --env PATH=/usr/local/bundle/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd irb "$container" &&
      buildah --root "$images" --runroot "$images/run" commit --quiet --rm "$container" "$image_name"
  } >> "$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; echo "making the image of $1 failed; the whole of it is in $root.log" >&2; return 1; }
  binds=()
  touch "$stamp"
  exec 8>&-
}
image_name=docker.io/library/ruby:3.3-slim

# fresh NAME: covers the kept root, so that `root` is a copy of it. To be called in a mount namespace of the test's own.
fresh() {
  mkdir -p "$work/$1"/{upper,inner,root}
  mount -t overlay overlay -o "lowerdir=$keep/$suite,upperdir=$work/$1/upper,workdir=$work/$1/inner" "$work/$1/root"
  root=$work/$1/root
}
