# frozen_string_literal: true

# What is neither database nor request: files that the application reads, GETs to other servers, threads and processes that it
# starts. It reads and calls nothing by itself.
require "net/http"
require_relative "hooks"

module Paceline
  module AutoCache
    module Outside
      FILES = %i[open read binread readlines foreach mtime stat size exist? file?].freeze
      WRITES = %i[write binwrite rename delete unlink].freeze
      PROCESSES = %i[fork spawn system ` popen daemon exec].freeze

      def self.install
        # File's own, and those that it has from IO.
        Hooks.on_class(File, FILES) { |_, _, arguments| file(*arguments) }
        Hooks.on_class(IO, %i[read binread readlines foreach]) { |_, _, arguments| file(*arguments) }
        Hooks.on_class(File, WRITES) { |_, name, arguments| untracked("#{name} of #{arguments.first}") }
        Hooks.on_class(Thread, %i[new start fork]) { untracked("starts a thread") }
        [Process, Kernel, IO].each { |owner| Hooks.on_class(owner, PROCESSES) { untracked("starts a process") } }
        Hooks.on(Object, PROCESSES) { untracked("starts a process") }
        Hooks.on(Net::HTTP, [:request]) { |connection, _, arguments| call(connection, arguments.first) }
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

      def self.file(path = nil, mode = nil, *)
        return unless path.is_a?(String) || path.respond_to?(:to_path)

        place = reader or return
        path = AutoCache.recording.quiet { File.expand_path(path) }
        # A library reads its own files: a zone's rules, texts in a language. They change with it.
        return unless AutoCache.readers.own?(path) || !place.start_with?("/")

        mode.is_a?(String) && mode.match?(/[wa+]/) ? AutoCache.recording.untracked("writes #{path}", place) : AutoCache.recording.file(path, place)
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
