# frozen_string_literal: true

# What a page is made of: records the reads of a request, and announces the writes of this process, for the automatic page
# cache. Nothing requires this file, and nothing is changed before `install`.
#
#   app = Paceline::AutoCache.wrap(app, root: Rails.root, release: "1", journal: "tmp/paceline-journal-1.sock")   # once, before the fork
#   Paceline::AutoCache.start                                                                                     # in each worker
#   Paceline::AutoCache.announce                                                                                  # in a process of its own without Rails
#
# It keeps no page, compares nothing, and never decides whether a page may be kept: that does the front, by the rules of
# crates/auto-cache. What a request reads in a way that is not seen here is said as "untracked", with the reason.
require_relative "announcing"
require_relative "auto_cache/encoding"
require_relative "auto_cache/hooks"
require_relative "auto_cache/readers"
require_relative "auto_cache/recording"
require_relative "auto_cache/statements"
require_relative "auto_cache/transactions"
require_relative "auto_cache/journal"
require_relative "auto_cache/values"
require_relative "auto_cache/body"
require_relative "auto_cache/middleware"

module Paceline
  module AutoCache
    # The variable of a thread (not of a fiber: an Enumerator reads for the same request) with its recording.
    KEY = :paceline_auto_cache
    # How often (s) a process looks whether it is connected.
    LOOK = 1
    # After so long (s) a write is over of which nobody knew what came: until then the front believes no schema.
    AFTERMATH = 6

    # Blocks with a recording that run in this process.
    @recorded = 0
    @counting = Thread::Mutex.new

    class << self
      # Told before a write is committed and after it; nil: nobody.
      attr_accessor :journal
      attr_reader :readers, :sink

      # Which load of the code this is: pages of another one are other pages.
      attr_reader :release

      # The application as the server calls it: each request leaves its recording in its env.
      # `samples`: not every request needs to be recorded (mode watch).
      def wrap(app, root:, release:, journal:, samples: false)
        install(root: root) { |*| }
        @withholds_schema = false
        @release = release
        self.journal = Journal.new(journal)
        require_relative "auto_cache/samples" if samples
        Middleware.new(app, samples: (Samples.new if samples))
      end

      # Announces the writes of this process to the server that runs in `root`, and records nothing. It does nothing while no server
      # runs there. `schema`: after a change of it, the server learns this process's schema; otherwise it narrows nothing until a worker tells its own.
      def announce(root: Dir.pwd, schema: true)
        return if journal

        require_relative "auto_cache/drivers"
        require_relative "auto_cache/rails"
        Drivers.install
        Rails.follow_cache
        @withholds_schema = !schema
        self.journal = Journal.new { [ENV["PACELINE_AUTO_CACHE"], *Dir[File.join(root, Announcing::SOCKETS)].sort_by { |path| -File.mtime(path).to_f }].compact }
      end

      # Connects this process with the front. Without a connection nothing is recorded: the front could not know of writes.
      def start
        release ? stay_joined(release) : journal.open
        tell_schema
      end

      # Connects a process that has loaded the application and serves nothing: its hooks and threads may write as well.
      def stand_by
        stay_joined("")
      end

      # Whether the front learns what this process writes; what it reads is of no use before.
      def joined?
        return true if !journal.respond_to?(:open?) || journal.open?

        stay_joined(release.to_s) if journal.joins? && !@staying&.alive?
        journal.open?
      end

      # Ends the connection until `start` or `stand_by`: this process is about to be forked from.
      def leave
        @staying&.kill&.join
        journal.close
      end

      # The front understands statements by the schema; without it any of them may read and write anything.
      def tell_schema
        return if @withholds_schema || !(journal && defined?(::ActiveRecord::Base))

        require_relative "auto_cache/schema"
        journal.schema { ::ActiveRecord::Base.connection_pool.with_connection { |connection| Schema.of(connection) } }
        Schema.files.each { |path| journal.database(path) }
      rescue ::ActiveRecord::ConnectionNotEstablished
        nil # the application has no database
      rescue StandardError => e
        warn "paceline: auto_cache: the schema of the database can't be read: #{e.class}: #{e.message}"
      end

      # This process has changed the schema; or, if that is not settled, may have, and then it can be told later only.
      def schema_changed(settled:)
        settled ? tell_schema : @telling_at = now + AFTERMATH
      end

      # Follows what is loaded by now: Active Record, Action Pack, SQLite3, PG, Rails.cache, Net::HTTP. The block gets each
      # recording, the request's env, the status and the headers. Called once.
      def install(root:, &sink)
        @sink = sink
        @readers = Readers.new(root.to_s)
        require_relative "auto_cache/moments"
        require_relative "auto_cache/outside"
        require_relative "auto_cache/drivers"
        require_relative "auto_cache/rails"
        [Moments, Outside, Drivers, Rails].each(&:install)
        self
      end

      # The recording of the request that this thread serves, or nil. Each hook looks here first.
      def recording
        Thread.current.thread_variable_get(KEY) if @recorded > 0 # Called a hundred times a request: `positive?` would be a call more.
      end

      # No request is recorded for a while (mode watch).
      def rest
        @counting.synchronize { Hooks.remove if @recorded.zero? } if Hooks.removable?
      end

      # Runs the block with this recording.
      def with(recording)
        before = self.recording
        @counting.synchronize do
          Hooks.restore
          @recorded += 1
        end
        begin
          Thread.current.thread_variable_set(KEY, recording)
          yield
        ensure
          Thread.current.thread_variable_set(KEY, before)
          @counting.synchronize { @recorded -= 1 }
        end
      end

      private

      # Joins, and from then on whenever there is no connection: until there is one, the front shows no page.
      def stay_joined(release)
        journal.join(release)
        return if @staying&.alive?

        @staying = Thread.new do
          loop do
            sleep(LOOK)
            tell_schema if (journal.rejoin && !release.empty?) || late?
          end
        end
        @staying.name = "paceline journal"
        @staying.thread_variable_set(:fork_safe, true)
      end

      # A change of the schema has been settled meanwhile, and was not told.
      def late?(at = now)
        return false unless @telling_at && at > @telling_at

        @telling_at = nil
        true
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
