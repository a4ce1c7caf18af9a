set :application, "shop"
set :repo_url, "git@example.org:shop.git"
set :deploy_to, "/srv/shop"

# What releases share. tmp itself is not among it: tmp/restart.txt belongs to the release.
append :linked_dirs, "log", "storage", "tmp/cache", "tmp/pids"
