# frozen_string_literal: true

# For Capistrano 3: `require "paceline/capistrano"` in the Capfile, and each deployment and each rollback restarts the application,
# the new release beside the old. Paceline watches tmp/restart.txt through `current`; no account, socket or signal is needed.
namespace :deploy do
  desc "Boot the new release beside the one that serves (touches tmp/restart.txt)"
  task :restart do
    on roles(fetch(:paceline_roles, :app)) do
      execute :mkdir, "-p", release_path.join("tmp")
      execute :touch, release_path.join("tmp/restart.txt")
    end
  end

  after :publishing, :restart
end
