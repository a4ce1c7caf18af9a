# frozen_string_literal: true

# Which line of the application read something. A framework reads the clock, headers and chance for its own ends: to log, to
# name a request, to sign. That changes no page, so a read counts by its reader: the first frame that does not merely pass
# the value on. Never raises, and reads no file.
module Paceline
  module AutoCache
    class Readers
      # What is installed is known by the gem, or by the first folder or file of a library of Ruby's: no name of a file makes an engine harmless.
      RAILS = %w[
        rails railties actioncable actionmailbox actionmailer actionpack actiontext actionview activejob activemodel activerecord activestorage activesupport
        abstract_controller action_cable action_controller action_dispatch action_mailbox action_mailer action_pack action_text action_view
        active_job active_model active_record active_storage active_support
      ].freeze
      RACK_GEMS = %w[rack rack-session rackup rack-attack rack-timeout rack-cors rack-brotli rack-protection rack-test].freeze
      STDLIB = %w[securerandom random date time forwardable delegate set fileutils pstore].freeze
      # Gems of which some files pass on what they read to their caller, and which.
      PASSING_GEMS = [*RAILS, *RACK_GEMS, *STDLIB, "concurrent-ruby", "concurrent"].to_h { |name| [name, true] }.freeze
      PASSING = %r{
        /rack/(?:request|utils|query_parser|media_type)\b|
        /action_dispatch/(?:http/|request/session|middleware/(?:cookies|flash|remote_ip))|/action_dispatch/routing/url_for|
        /action_controller/(?:base|metal)\.rb|/action_controller/metal/(?:cookies|flash|request_forgery_protection|helpers)|
        /action_view/(?:helpers|renderer|template|base|buffers|rendering)|/abstract_controller/|
        /active_support/(?:cache/strategy/local_cache|core_ext|time_with_zone|values|duration|time_zone|callbacks|number_helper)|
        /active_support/(?:hash_with_indifferent_access|json|parameter_filter)|
        /(?:securerandom|random/formatter|date|time|forwardable|delegate|set|fileutils|pstore)\.rb\z|/concurrent/
      }x
      # What of Rails reads for the application: conditions of routes (`constraints: { user_agent: /iPhone/ }`), `allow_browser`.
      ASKED = %r{/action_dispatch/journey/route\.rb\z|/action_controller/metal/allow_browser\.rb\z}
      # What of the folder `rack` in Ruby's own is Rack's, or is known: there are also libraries that choose a language or a layout.
      RACK = %r{
        \A/rack(?:\.rb\z|/(?:auth|bad_request|body_proxy|builder|cascade|chunked|common_logger|conditional_get|config|constants|content_length|
        content_type|core_ext|deflater|directory|etag|events|files?|handler|head|headers|lint|lobster|lock|logger|media_type|method_override|mime|
        mock|mock_request|mock_response|multipart|null_logger|query_parser|recursive|reloader|request|response|rewindable_input|runtime|sendfile|
        server|session|show_exceptions|show_status|static|tempfile_reaper|urlmap|utils|version|attack|brotli|cors|protection|test|timeout)\b)
      }x
      # What reads for itself: Rails, Rack, drivers, loggers, Ruby's own libraries. Anything else that is no application is a
      # library whose purpose nobody knows: it counts.
      LIBRARIES = %w[
        sqlite3 pg logger logging lograge semantic_logger rails_semantic_logger newrelic_rpm new_relic connection_pool zeitwerk bootsnap bundler rubygems
        timeout monitor net net-http net-protocol socket openssl tempfile tmpdir erb digest resolv
      ].freeze
      HARMLESS = [*RAILS, *RACK_GEMS, *LIBRARIES].to_h { |name| [name, true] }.freeze
      TRACERS = /\Aopentelemetry(?:-|\z)/
      # Paceline itself, wherever it lies.
      OWN = %r{\A#{Regexp.escape(File.expand_path("../..", __dir__))}/|/gem/lib/paceline/|/paceline-\d[^/]*/lib/|/paceline_native}
      # There Active Support looks whether something signed has ended (`find_signed`). When a cookie ends is the browser's concern.
      ENDING = %r{/active_support/messages/metadata\.rb\z}
      COOKIES = %r{/action_dispatch/middleware/cookies\.rb\z}
      # The folder of a gem, with its version or its revision.
      GEM = %r{\A/(?<name>[^/]+?)-(?:\d[\w.]*|\h{6,})(?:-[\w-]+)?/}
      FIRST = %r{\A/([^/]+?)(?:\.rb)?(?:/|\z)}
      private_constant :RAILS, :RACK_GEMS, :STDLIB, :LIBRARIES, :PASSING_GEMS, :ASKED, :RACK, :TRACERS, :OWN, :ENDING, :COOKIES, :GEM, :FIRST
      # Where a library lies says nothing about what it is: a folder above may be called "rails". What is not installed, such as an engine
      # beside the application, is by the same people.
      INSTALLED = %r{/(?:(?:bundler/)?gems|lib(?:64)?/ruby/(?:vendor_ruby|site_ruby|\d[\d.]*)|share/ruby)/}
      # Behind it is what runs the application: a server, a test.
      OUTSIDE = %r{/paceline/auto_cache/middleware\.rb\z}

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
        return of_paceline(own) if OWN.match?(own)
        return own.start_with?("<internal:") ? :passing : :library unless installed

        name = own[GEM, :name]
        of_gem(name || own[FIRST, 1], own, name.nil?)
      end

      def of_paceline(path)
        return :outside if OUTSIDE.match?(path)

        path.include?("/auto_cache/") ? :passing : :harmless
      end

      # `in_ruby`: it has no folder of its own, but lies among Ruby's libraries.
      def of_gem(name, path, in_ruby)
        return :passing if PASSING_GEMS.key?(name) && PASSING.match?(path)
        return :library if ASKED.match?(path)
        return :ending if RAILS.include?(name) && ENDING.match?(path)
        return RACK.match?(path) || !in_ruby ? :harmless : :library if name == "rack"

        HARMLESS.key?(name) || TRACERS.match?(name) ? :harmless : :library
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
