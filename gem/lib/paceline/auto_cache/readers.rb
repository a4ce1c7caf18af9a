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
        /action_controller/(?:base|metal)\b|/action_controller/metal/(?:cookies|flash|request_forgery_protection|helpers)|
        /action_view/(?:helpers|renderer|template|base|buffers|rendering)|/abstract_controller/|
        /active_support/(?:core_ext|time_with_zone|values|duration|time_zone|callbacks|number_helper)|
        /active_record/(?:relation|associations|querying|scoping|core|model_schema|persistence|reflection|connection_adapters)|
        /(?:securerandom|random/formatter|date|time|forwardable|delegate|set)\.rb\z|/auto_cache/|\A<internal:
      }x
      # What reads for itself. Anything else that is no application is a library whose purpose nobody knows: it counts.
      HARMLESS = %r{
        /(?:logger|log_subscriber|logging|lograge|instrumentation|notifications|tagged_logging|log_tags)\b|/logger/|
        /rack/|/action_dispatch/(?:middleware|routing|journey|system_testing|http/cache)|/action_dispatch/request|
        /action_controller/metal/|/action_controller/log_subscriber|/rails/(?:rack|engine|application)|/railties-|
        /active_support/(?:cache|messages|message|encrypted|secure_compare|concurrency|execution_wrapper|executor|reloader|dependencies|evented|security_utils|key_generator)|
        /active_record/|/active_model/|/action_view/|/lib/sqlite3/|/lib/pg/|/connection_pool|/concurrent/|/zeitwerk/|/bootsnap/|
        /(?:timeout|monitor|net/\w+|socket|openssl/\w+|tempfile|tmpdir|fileutils|pstore|erb|digest|resolv)\.rb\z|
        /gem/lib/paceline/|/paceline-[^/]*/lib/|/paceline_native|/rubygems/|/bundler/
      }x

      # How many frames are looked at.
      DEPTH = 60

      def initialize(root)
        @root = root.end_with?("/") ? root : "#{root}/"
        @kinds = {} # path => kind; a process has some thousands of paths
      end

      # "app/models/post.rb:7" of the innermost frame within the application; "" if there is none.
      def place
        locations = caller_locations(2, 120) || []
        own = locations.find { |location| kind(location) == :application }
        own ? format(own) : ""
      end

      # The place of who reads here: "" if it is no line of the application but counts, nil if it reads for itself.
      def reader
        locations = caller_locations(2, DEPTH) || []
        locations.each_with_index do |location, at|
          case kind(location)
          when :passing then next
          when :harmless then return nil
          when :application then return format(location)
          else
            own = locations[at..].find { |other| kind(other) == :application }
            return own ? format(own) : "#{location.path}:#{location.lineno}"
          end
        end
        nil
      end

      private

      def kind(location)
        # Templates have their own path; evaluated code that of where it was written.
        path = location.absolute_path || location.path || ""
        @kinds[path] ||= kind_of(path)
      end

      def kind_of(path)
        return :application if path.start_with?(@root) && !path.start_with?("#{@root}vendor/", "#{@root}gem/lib/paceline/")

        case path
        when PASSING then :passing
        when HARMLESS then :harmless
        else :library
        end
      end

      def format(location)
        path = location.absolute_path || location.path
        "#{path.delete_prefix(@root)}:#{location.lineno}"
      end
    end
  end
end
