# frozen_string_literal: true

require "helper"
require "paceline/records"
require "paceline/session/store"

# What the tests of sessions run over: a file, and each server of Redis' protocol that is installed.
module SessionBackends
  # A server of its own, on a socket in a folder that goes with it.
  class Server
    attr_reader :url, :socket

    def initialize(program, *options)
      @program = program
      @folder = Dir.mktmpdir
      @socket = File.join(@folder, "socket")
      @url = "unix://#{@socket}"
      @options = options
      start
      Minitest.after_run { stop && FileUtils.rm_rf(@folder) }
    end

    def start
      said, tell = IO.pipe
      @pid = Process.spawn(@program, "--port", "0", "--unixsocket", @socket, "--save", "", "--appendonly", "no", "--dir", @folder, *@options, out: tell, err: tell, in: File::NULL)
      tell.close
      lines = []
      until lines.last&.match?(/ready to accept/i)
        lines << (said.gets || raise("#{@program} ended: #{lines.join}"))
      end
      # It goes on telling.
      @drain = Thread.new { said.each_line {} }
    end

    def stop
      return true unless @pid

      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      @drain.join
      @pid = nil
      true
    end
  end

  SERVERS = %w[redis-server valkey-server].select { |program| ENV["PATH"].split(":").any? { |folder| File.executable?(File.join(folder, program)) } }.freeze
  CLIENT = Gem::Specification.find_all_by_name("redis").any?

  def self.server(program)
    (@servers ||= {})[program] ||= Server.new(program)
  end

  # Defines a test for each backend: the block gets what `store:` takes, fresh.
  def on_each(name, &test)
    define_method("test_#{name}_in_a_file") do
      skip "there is no store without the native part" unless Paceline::Native
      Dir.mktmpdir { |folder| instance_exec(File.join(folder, "sessions.paceline"), &test) }
    end
    programs = SERVERS.empty? ? %w[redis-server] : SERVERS
    programs.each do |program|
      define_method("test_#{name}_in_#{program.tr("-", "_")}") do
        skip "there is no #{program}, or no gem redis" unless SERVERS.include?(program) && CLIENT
        server = SessionBackends.server(program)
        raw(server.url) { |redis| redis.flushall }
        instance_exec(server.url, &test)
      end
    end
  end

  # What tests ask of a backend besides its store.
  module Looks
    CREATED = 1_800_000_000

    # A client of the test's own.
    def raw(url)
      require "redis"
      redis = Redis.new(url: url)
      yield redis
    ensure
      redis&.close
    end

    def redis?(store) = store.include?("://")

    # All that is kept, byte for byte.
    def everything(store)
      return raw(store) { |redis| redis.keys("*").sort.map { |key| [key, redis.hgetall(key).sort] }.inspect.b } if redis?(store)

      File.exist?(store) ? File.binread(store) : "".b
    end

    # How many sessions are kept, also expired ones.
    def count(store)
      return raw(store, &:dbsize) if redis?(store)

      Paceline::Records.at(store).snapshot { |now| now.scan("s", 10_000).count { |key, _| key.start_with?("s") } }
    end

    # A store by a clock that stands still: `@now`.
    def sessions(store, **options)
      @now ||= CREATED
      Paceline::Session::Store.new(store: store, clock: -> { @now }, **options)
    end

    def values(sessions, id)
      (record = sessions.find(id)) && sessions.values(record)
    end

    # What a request does: finds, changes, saves.
    def change(sessions, id, **options)
      record = sessions.find(id)
      values = sessions.values(record)
      yield values
      sessions.update(id, record, values, **options)
    end
  end
end
