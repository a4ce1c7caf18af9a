# A hand-made file of a deployed application: hooks under old and new names, and much that has no meaning here.
app_dir = File.expand_path("..", __dir__)
directory app_dir
environment "production"
bind "unix://tmp/sockets/puma.sock?umask=0117"
bind "tcp://127.0.0.1:9393"
workers Integer(ENV["WEB_CONCURRENCY"] || 2)
threads 1, 6
preload_app!
rackup "shop.ru"
tag "shop"
state_path "tmp/pids/puma.state"
activate_control_app "unix://tmp/sockets/pumactl.sock", { no_token: true }
prune_bundler
early_hints true
worker_shutdown_timeout 25
worker_boot_timeout 90
stdout_redirect "log/access.log", "log/app.log", true
lowlevel_error_handler { |_error| [500, {}, ["broken"]] }
set_remote_address header: "X-Real-IP"
puts "read"

before_fork { CALLS << [:before_fork] if defined?(CALLS) }
on_worker_boot { |index| CALLS << [:old_boot, index] }
before_worker_boot(:store) { |index, data| CALLS << [:new_boot, index, data[:first] ||= index] }
before_worker_shutdown(:store) { |index, data| CALLS << [:shutdown, index, data[:first]] }
on_restart { CALLS << [:restart] }
