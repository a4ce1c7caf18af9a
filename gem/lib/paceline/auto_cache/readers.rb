# frozen_string_literal: true

# Which line of the application read something. A framework reads the clock, headers and chance for its own ends: to log, to
# name a request, to sign. That changes no page, so a read counts by its reader: the first frame that does not merely pass
# the value on. Never raises, and reads no file.
module Paceline
  module AutoCache
    class Readers
      # What passes on what it reads to its caller.
      PASSING = %r{
        /rack/(?:request|utils|query_parser|media_type)\b|
        /action_dispatch/(?:http/|request/session|middleware/(?:cookies|flash|remote_ip))|/action_dispatch/routing/url_for|
        /action_controller/(?:base|metal)\.rb|/action_controller/metal/(?:cookies|flash|request_forgery_protection|helpers)|
        /action_view/(?:helpers|renderer|template|base|buffers|rendering)|/abstract_controller/|
        /active_support/(?:core_ext|time_with_zone|values|duration|time_zone|callbacks|number_helper)|
        /active_support/(?:hash_with_indifferent_access|json|parameter_filter)|
        /(?:securerandom|random/formatter|date|time|forwardable|delegate|set|fileutils|pstore)\.rb\z|/concurrent/|/auto_cache/|\A<internal:
      }x
      # What of Rails reads for the application: conditions of routes (`constraints: { user_agent: /iPhone/ }`), `allow_browser`.
      ASKED = %r{/action_dispatch/journey/route\.rb\z|/action_controller/metal/allow_browser\.rb\z}
      # What of `rack/` is Rack's, or is known: in that folder are also libraries that choose a language or a layout.
      RACK = %r{
        /rack(?:\.rb\z|/(?:auth|bad_request|body_proxy|builder|cascade|chunked|common_logger|conditional_get|config|constants|content_length|
        content_type|core_ext|deflater|directory|etag|events|files?|handler|head|headers|lint|lobster|lock|logger|media_type|method_override|mime|
        mock|mock_request|mock_response|multipart|null_logger|query_parser|recursive|reloader|request|response|rewindable_input|runtime|sendfile|
        server|session|show_exceptions|show_status|static|tempfile_reaper|urlmap|utils|version|attack|brotli|cors|protection|test|timeout)\b)
      }x
      # What reads for itself: Rails, Rack, drivers, loggers, Ruby's own libraries. Anything else that is no application is a
      # library whose purpose nobody knows: it counts.
      HARMLESS = %r{
        /action(?:cable|mailbox|mailer|pack|text|view)-\d[\w.]*/lib/|/active(?:job|model|record|storage|support)-\d[\w.]*/lib/|/railties[-/]|\A/rails/|#{RACK.source}|/sqlite3/|/pg/|
        /(?:action|active)_(?:cable|controller|dispatch|job|mailbox|mailer|model|pack|record|storage|support|text|view)/|
        /(?:logger|log_|logging|lograge|instrumentation|notifications)|/connection_pool|/zeitwerk/|/bootsnap/|
        /(?:timeout|monitor|net/\w+|socket|openssl/\w+|tempfile|tmpdir|erb|digest|resolv)\.rb\z|/rubygems/|/bundler/
      }x
      # Paceline itself, wherever it lies.
      OWN = %r{\A#{Regexp.escape(File.expand_path("../..", __dir__))}/|/gem/lib/paceline/|/paceline-[^/]*/lib/|/paceline_native}
      # There Active Support looks whether something signed has ended (`find_signed`). When a cookie ends is the browser's concern.
      ENDING = %r{/active_support/messages/metadata\.rb\z}
      COOKIES = %r{/action_dispatch/middleware/cookies\.rb\z}
      private_constant :ASKED, :RACK, :OWN, :ENDING, :COOKIES
      # Where a library lies says nothing about what it is: a folder above may be called "rails". What is not installed, such as an engine
      # beside the application, is by the same people.
      INSTALLED = %r{/(?:(?:bundler/)?gems|lib(?:64)?/ruby/(?:vendor_ruby|site_ruby|\d[\d.]*)|share/ruby)/}
      # Behind it is what runs the application: a server, a test.
      OUTSIDE = %r{/auto_cache/middleware\.rb\z}

      # A controller's method that adds to what is logged, when the page is made.
      LOGGED = "append_info_to_payload"
      private_constant :LOGGED

      # How many frames are looked at, and at once.
      DEPTH = 160
      STEP = 10
      # Statements whose place is kept.
      MAX_PLACES = 2000

      def initialize(root)
        @root = root.end_with?("/") ? root : "#{root}/"
        @places = {} # SQL => place
        @kinds = {} # path => kind; a process has some thousands of paths
      end

      # "app/models/post.rb:7" of the innermost frame within the application; "" if there is none.
      def place
        at = 1
        while (locations = caller_locations(at, STEP)) && !locations.empty? && at < DEPTH
          found = application(locations)
          return found if found

          at += STEP
        end
        ""
      end

      # The place of a statement, or of a name: of the line that read it first in this process. To look for it each time would
      # take longer than to look for all else that is recorded.
      def place_of(what)
        @places[what] || begin
          found = place
          @places.size < MAX_PLACES ? @places[what] = found : found
        end
      end

      # The place that reads here: a line of the application, or of a library that nobody knows; nil if a framework reads for
      # itself, or the application for its log.
      def reader
        at = 1
        # Most readers are near, and each frame costs.
        while (locations = caller_locations(at, STEP)) && !locations.empty? && at < DEPTH
          locations.each do |location|
            case kind(location)
            when :passing then next
            when :harmless, :outside then return nil
            when :ending then return of_cookie? ? nil : own_place(location)
            when :application then return location.base_label == LOGGED ? nil : format(location)
            else return own_place(location)
            end
          end
          at += STEP
        end
        nil
      end

      # Whether this is a file of the application.
      def own?(path)
        kind_of(path) == :application
      end

      private

      # Of a library: the line of the application that has called it, if there is one.
      def own_place(location)
        own = place
        own.empty? ? "#{location.path}:#{location.lineno}" : own
      end

      def of_cookie?
        caller_locations(1, DEPTH).any? { |location| COOKIES.match?(location.absolute_path || location.path || "") }
      end

      # The innermost frame of the application; "" if they end before; nil if it may be further out.
      def application(locations)
        locations.each do |location|
          case kind(location)
          when :application then return format(location)
          when :outside then return ""
          end
        end
        nil
      end

      def kind(location)
        # Templates have their own path; evaluated code that of where it was written.
        path = location.absolute_path || location.path || ""
        @kinds[path] ||= kind_of(path)
      end

      def kind_of(path)
        return :application if path.start_with?(@root) && !path.start_with?("#{@root}vendor/", "#{@root}gem/lib/paceline/")

        own, installed = within(path)
        case own
        when OUTSIDE then :outside
        when PASSING then :passing
        when OWN then :harmless
        when ASKED then :library
        when ENDING then :ending
        else installed && HARMLESS.match?(own) ? :harmless : :library
        end
      end

      # The path within its library, or within the application; and whether it is an installed library's.
      def within(path)
        return [path, false] unless path.start_with?("/")

        path = path.delete_prefix(@root.chomp("/"))
        _, found, rest = path.rpartition(INSTALLED)
        found.empty? ? [path, false] : ["/#{rest}", true]
      end

      def format(location)
        path = location.absolute_path || location.path
        "#{path.delete_prefix(@root)}:#{location.lineno}"
      end
    end
  end
end
