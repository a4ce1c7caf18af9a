# Builds the image of examples/deploy/docker/Dockerfile, and that of Rails' own Dockerfile as the generator leaves it, by Buildah without a daemon; and starts them
# as a container engine does, with process 1 in a namespace of its own. For test/packaging/run, which sources it.
# shellcheck shell=bash disable=SC2154
# shellcheck source=test/packaging/inside/lib.bash
. "$here/test/packaging/inside/lib.bash"

store=(buildah --root "$work/images" --runroot "$work/images/run" --storage-opt "overlay.imagestore=$keep/$suite.images")

(inside / /test/inside/index)
mkdir -p "$root/srv/index/debian"
mount --bind "$keep/$suite.debs" "$root/srv/index/debian"
# An engine, like Docker, knows no settings of the machine.
serve "$dist/programs/x86_64/paceline" --kind files --dir "$root/srv/index" -b tcp://127.0.0.1:9299 --user root
wait_for $mirror/versions
index=$server log=
(inside / /test/inside/image)

# build NAME DOCKERFILE FOLDER
build() {
  say "the image $1"
  "${store[@]}" build --isolation chroot --network host --pull-never --build-arg RUBY_VERSION=3.3 --quiet --file "$2" --tag "$1" "$3" > "$work/build.log" 2>&1 || { cat "$work/build.log"; fail "the Dockerfile $2"; }
}

# A command before those that start a container, and what is started instead of the image's CMD.
within=() instead=()

# limit MEMORY CORES/100: containers have no more from now on. The control groups are those of the version that has the controllers here.
limit() {
  local all=/sys/fs/cgroup name=paceline-test-$BASHPID
  if [ -e $all/cgroup.controllers ]; then
    echo "+memory +cpu" > $all/cgroup.subtree_control && groups=("$all/$name") && mkdir "${groups[0]}" || return
    echo "$1" > "${groups[0]}/memory.max" && echo "$(($2 * 1000)) 100000" > "${groups[0]}/cpu.max" || return
  else
    groups=("$all/memory/$name" "$all/cpu/$name") && mkdir "${groups[@]}" || return
    echo "$1" > "${groups[0]}/memory.limit_in_bytes" && echo $(($2 * 1000)) > "${groups[1]}/cpu.cfs_quota_us" || return
  fi
  # A container that a failed test has left is killed.
  trap 'until rmdir "${groups[@]}" 2> /dev/null; do cat "${groups[@]/%//cgroup.procs}" | xargs -r kill -KILL 2> /dev/null; sleep 0.05; done' EXIT
  # shellcheck disable=SC2016
  within=(bash -c 'for group in '"${groups[*]}"'; do echo $$ > "$group/cgroup.procs"; done; exec "$@"' bash)
}

# start IMAGE ENTRY...: a container; its first process is `first`, and `container` its root. ENTRY (NAME=VALUE) is added to its environment.
start() {
  local image=$1 name config
  shift
  name=$("${store[@]}" from --pull-never "$image")
  container=$("${store[@]}" mount "$name")
  config=$("${store[@]}" inspect --type image "$image" | ruby -rjson -e 'puts JSON.generate(JSON.parse($stdin.read)["OCIv1"]["config"])')
  facts() { ruby -rjson -e 'config = JSON.parse(ARGV.shift); puts ARGV.flat_map { |name| config[name] || [] }' "$config" "$@"; }
  mapfile -t environment < <(facts Env)
  mapfile -t words < <(if [ ${#instead[@]} = 0 ]; then facts Entrypoint Cmd; else facts Entrypoint; printf '%s\n' "${instead[@]}"; fi)
  serve "${within[@]}" unshare --mount --pid --fork --kill-child bash -c 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; mount --rbind /sys "$0/sys"; exec chroot --userspec "$1" "$0" /usr/bin/env -i -C "$2" "${@:3}"' \
    "$container" "$(facts User)" "$(facts WorkingDir)" HOME=/home/rails "${environment[@]}" SECRET_KEY_BASE_DUMMY=1 "$@" "${words[@]}"
  wait_for http://127.0.0.1:3000/
  first=$(pgrep -P "$server")
}

# end SIGNAL STATUS
end() {
  local status=0
  kill "-$1" "$first"
  wait "$server" || status=$?
  [ "$status" = "$2" ] || fail "$1 ended the container with status $status, not $2"
}

build example "$here/examples/deploy/docker/Dockerfile" "$root/srv/shop"
start example
say "process 1"
has "^[Pp]aceline.* as 1000, tables: .*beers.* schema_migrations" /tmp/answer
has "^body" <(curl -sf http://127.0.0.1:3000/assets/site.css)
has "^NSpid:.*[[:space:]]1$" "/proc/$first/status"
has "^paceline$" "/proc/$first/comm"
for _ in 1 2 3 4 5; do has "left" <(curl -sf http://127.0.0.1:3000/orphan); done
for _ in $(seq 200); do pgrep --ns "$first" --nslist pid -r Z > /dev/null || break; sleep 0.05; done
! pgrep --ns "$first" --nslist pid -r Z > /dev/null || fail "process 1 does not collect orphans that have ended"
curl -s -o "$work/slow" -w '%{http_code}' http://127.0.0.1:3000/slow > "$work/status" & slow=$!
until [ -e "$container/rails/tmp/slow" ]; do sleep 0.05; done
kill -TERM "$first"
until grep -q 'Stopping: requests in hand' "$log"; do kill -0 "$first" || fail "TERM did not wait for the request in progress"; sleep 0.05; done
touch "$container/rails/tmp/go"
wait $slow
has "^done$" "$work/slow"
has "^200$" "$work/status"
status=0
wait "$server" || status=$?
[ $status = 0 ] || fail "TERM ended the container with status $status"


build generated "$root/srv/shop/Dockerfile" "$root/srv/shop"
start generated
has "tables: .*beers.* schema_migrations" /tmp/answer
has "ready: production, $(($(nproc) < 4 ? $(nproc) : 4)) x 3 threads" "$log"
end TERM 0

say "the command of Kamal's deploy.yml, behind a proxy"
ip addr add 10.99.0.1/32 dev lo
read -ra instead < <(ruby -ryaml -e 'puts YAML.load_file(ARGV[0]).dig("servers", "web", "cmd")' "$here/examples/deploy/kamal/config/deploy.yml")
start generated
has "tables: .*beers.* schema_migrations" /tmp/answer
has "^https://203.0.113.9$" <(curl -sf --interface 10.99.0.1 -H "X-Forwarded-For: 203.0.113.9" -H "X-Forwarded-Proto: https" http://10.99.0.1:3000/client)
end TERM 0
instead=()

say "limits of memory and cores"
if (limit $((400 << 20)) 50) 2> /dev/null; then
  limit $((400 << 20)) 50
  start generated
  has "ready: production, 1 x 3 threads" "$log"
  has "its control group.s limit is 400 MB" <(nsenter -t "$first" --mount --pid --root env -C /rails "${environment[@]}" bundle exec paceline memory)
  end INT 0
else
  echo "NOT RUN: no control group can be made here"
fi
kill -TERM $index
say "all well"
