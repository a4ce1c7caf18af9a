# frozen_string_literal: true

# Decides whether a process that has loaded a Rails application announces what it writes to the server's automatic page cache, and begins it.
# Where nothing says that a server has one, nothing is loaded or changed: Paceline::AutoCache is not there. It connects to nothing: that is left to the first write.
module Paceline
  module Announcing
    # Of running servers, below an application's root.
    SOCKETS = "tmp/paceline-journal-*.sock"
    SETTINGS = "paceline.toml"
    # A table, `[auto_cache]` or `[site.auto_cache]`, or a key of one.
    WANTED = /^\s*(?:\[+\s*)?(?:[\w"'-]+\s*\.\s*)*["']?auto_cache\b/

    class << self
      # True: it has begun.
      def begin_in(root, environment:)
        return false if environment == "test" || of_server? || !wanted?(root)

        require_relative "auto_cache"
        # The server's database may be another one than that of a developer's console, and have another schema.
        AutoCache.announce(root: root, schema: environment != "development")
        true
      rescue StandardError, LoadError => e
        warn "paceline: auto_cache: the server will not learn what this process writes: #{e.class}: #{e.message}"
        false
      end

      # A server that is about to start counts as well, if its settings are here.
      def wanted?(root)
        return true unless ENV["PACELINE_AUTO_CACHE"].to_s.empty?

        File.foreach(File.join(root, SETTINGS), encoding: "BINARY").any? { |line| WANTED.match?(line) } || sockets?(root)
      rescue SystemCallError
        sockets?(root)
      end

      private

      # Workers and their preloader announce by themselves, and a doctor's copy writes nothing.
      def of_server?
        defined?(Server::AppLoader) && Server::AppLoader.loads?
      end

      def sockets?(root) = Dir.glob(SOCKETS, base: root).any?
    end
  end
end
