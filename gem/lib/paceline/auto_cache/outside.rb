# frozen_string_literal: true

# What is neither database nor request: files that the application reads, what other servers answer, threads and processes that it
# starts or hands work to. It reads and calls nothing by itself.
require "net/http"
require_relative "hooks"

module Paceline
  module AutoCache
    module Outside
      FILES = %i[open new read binread readlines foreach mtime ctime stat lstat size size? zero? empty? exist? file? directory? readable? readlink].freeze
      TESTS = %i[size size? zero? empty? exist? file? directory? readable?].freeze
      # What a folder has changes with its own time; what is found below it does not.
      FOLDERS = %i[entries children each_child foreach exist? empty? new open].freeze
      SEARCHES = %i[[] glob].freeze
      WRITES = %i[write binwrite rename delete unlink].freeze
      PROCESSES = %i[fork spawn system ` popen daemon exec].freeze
      # To write a file, by the number that says how it is opened.
      WRITING = File::WRONLY | File::RDWR | File::APPEND | File::CREAT | File::TRUNC
      ANSWERS = %i[read readpartial read_nonblock gets readline readlines each_line getc getbyte readbyte sysread recv recv_nonblock recvfrom recvmsg].freeze
      # Libraries in C with sockets of their own.
      CLIENTS = {
        "Ethon::Easy" => :perform, "Curl::Easy" => :perform, "Redis::Connection::Hiredis" => :read, "RedisClient::HiredisConnection" => :read,
        "Mysql2::Client" => :query, "Mysql2::Statement" => :execute, "Trilogy" => :query
      }.freeze
      # What reads from a socket for something that is known by a better name: Net::HTTP, Rails.cache, sessions; and this library.
      KNOWN = %r{/net/http|/active_support/cache/|/session|/lib/paceline/(?!auto_cache\.rb|auto_cache/(?!journal))}
      FOLLOWING = %r{/lib/paceline/auto_cache|\A<internal:}
      # Frames that are looked at for that.
      DEPTH = 100
      private_constant :WRITING, :CLIENTS, :KNOWN, :FOLLOWING, :DEPTH

      def self.install
        # File's own, and those that it has from IO.
        Hooks.on_class(File, FILES) { |_, name, arguments, options| file(name, arguments, options) }
        Hooks.on_class(FileTest, TESTS) { |_, name, arguments| file(name, arguments) }
        Hooks.on_class(IO, %i[read binread readlines foreach]) { |_, name, arguments| file(name, arguments) }
        # What is found there counts as a whole.
        Hooks.on_class(Dir, FOLDERS) { |_, _, arguments| file(:read, arguments) }
        Hooks.on_class(Dir, SEARCHES) { |_, name, arguments, options| searched(name == :glob ? arguments.first : arguments, options[:base]) }
        Hooks.on_class(File, WRITES) { |_, name, arguments| untracked("#{name} of #{arguments.first}") }
        Hooks.on_class(Thread, %i[new start fork]) { untracked("starts a thread") }
        [Process, Kernel, IO].each { |owner| Hooks.on_class(owner, PROCESSES) { untracked("starts a process") } }
        Hooks.on(Object, PROCESSES) { untracked("starts a process") }
        Hooks.on(Net::HTTP, [:request]) { |connection, _, arguments| call(connection, arguments.first) }
        Hooks.on(BasicSocket, ANSWERS) { answered }
        Hooks.on(OpenSSL::SSL::SSLSocket, %i[sysread sysread_nonblock]) { answered } if defined?(OpenSSL::SSL::SSLSocket)
        CLIENTS.each { |name, method| Hooks.on(Object.const_get(name), [method]) { answered } if Object.const_defined?(name) }
        # Its files are no plain ones.
        Hooks.on(Paceline::PStore, [:transaction]) { untracked("reads a PStore") } if defined?(Paceline::PStore)
        executors
      end

      # Threads that are there already, and know no request.
      def self.executors
        return unless defined?(Concurrent)

        require "concurrent/executor/ruby_executor_service"
        Hooks.on(Concurrent::RubyExecutorService, [:post]) { untracked("hands work to another thread") }
      rescue LoadError
        nil # another version has no such file
      end

      # Whose place counts, or nil.
      def self.reader
        recording = AutoCache.recording
        recording.quiet { AutoCache.readers.reader } unless recording.quiet?
      end

      def self.untracked(why)
        place = reader
        AutoCache.recording.untracked(why, place) if place
      end

      def self.file(name, arguments, options = {})
        path = arguments.first
        return unless path.is_a?(String) || path.respond_to?(:to_path)

        place = reader or return
        path = AutoCache.recording.quiet { File.expand_path(path) }
        # A library reads its own files: a zone's rules, texts in a language. They change with it.
        return unless AutoCache.readers.own?(path) || !place.start_with?("/")

        writes = %i[open new].include?(name) && (writes?(arguments[1] || options[:mode]) || writes?(options[:flags]))
        writes ? AutoCache.recording.untracked("writes #{path}", place) : AutoCache.recording.file(path, place)
      end

      def self.writes?(mode)
        # Behind a colon is an encoding.
        mode.is_a?(Integer) ? mode.anybits?(WRITING) : mode.to_s.match?(/\A[^:]*[wa+]/)
      end

      # Of one folder, whose time tells. A library looks for files of its own.
      def self.searched(patterns, base)
        place = reader
        return if place.nil? || place.start_with?("/")

        patterns = Array(patterns).flatten.map(&:to_s)
        folders = patterns.map { |pattern| File.dirname(pattern) }
        return AutoCache.recording.untracked("lists files (#{patterns.first})", place) if folders.any? { |folder| folder.match?(/[*?\[{]/) }

        folders.each { |folder| AutoCache.recording.file(File.expand_path(folder, base), place) }
      end

      # Somebody has answered, and not to Active Record: nobody tells when the next answer is another one.
      def self.answered
        recording = AutoCache.recording
        return if recording.quiet? || recording.untracked_because || Drivers.inside?

        place = recording.quiet { conversation }
        recording.untracked("asks another server", place) if place
      end

      # The line that talks to it: the application's, or a library's if that does it by itself. nil: it is known by another name.
      def self.conversation
        first = nil
        caller_locations(1, DEPTH).each do |location|
          path = location.absolute_path || location.path || ""
          return AutoCache.readers.place if AutoCache.readers.own?(path)
          return if KNOWN.match?(path)
          break if Readers::OUTSIDE.match?(path)

          first ||= "#{path}:#{location.lineno}" unless FOLLOWING.match?(path)
        end
        first
      end

      def self.call(connection, request)
        # A connection that is not open yet opens itself and calls once more.
        return unless connection.started?

        # Without its query, which may hold a key.
        url = "#{connection.use_ssl? ? "https" : "http"}://#{connection.address}:#{connection.port}#{request.path[/\A[^?]*/]}"
        recording = AutoCache.recording
        request.method == "GET" ? recording.outbound(url) : recording.untracked("#{request.method} #{url}")
      end
    end
  end
end
