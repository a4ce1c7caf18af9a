# frozen_string_literal: true

# Unicorn's settings for a restart by USR2, as its documentation has them: the new master's first worker asks the old master to go.
worker_processes Integer(ENV.fetch("BENCH_WORKERS"))
preload_app true
timeout 120
logger Logger.new(File::NULL)
pid ENV.fetch("BENCH_PIDFILE")

before_fork do |server, _worker|
  old = "#{server.config[:pid]}.oldbin"
  if File.exist?(old) && server.pid != old
    begin
      Process.kill("QUIT", File.read(old).to_i)
    rescue Errno::ENOENT, Errno::ESRCH
      nil # it has gone already
    end
  end
end
