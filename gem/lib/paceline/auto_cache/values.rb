# frozen_string_literal: true

# The env and the cookies of a request, and its session, as hashes that say what is read of them. They hold and return what
# the plain ones do.
require "digest"

module Paceline
  module AutoCache
    # Records names that are read. A subclass says how.
    module Reading
      def [](key)
        read(key)
        super
      end

      def fetch(key, *rest, &)
        read(key)
        super
      end

      def key?(key)
        read(key)
        super
      end
      alias has_key? key?
      alias include? key?
      alias member? key?

      def dig(key, *rest)
        read(key)
        super
      end

      def values_at(*keys)
        keys.each { |key| read(key) }
        super
      end

      def slice(*keys)
        keys.each { |key| read(key) }
        super
      end

      def fetch_values(*keys, &)
        keys.each { |key| read(key) }
        super
      end

      def assoc(key)
        read(key)
        super
      end

      def delete(key, &)
        read(key)
        super
      end
    end

    # Records that all is read. A subclass says how.
    module Listing
      # The rest of Enumerable calls `each`. What is merely copied (dup, merge) still records what is read of it.
      WHOLE = %i[
        each each_pair each_key each_value keys values to_a to_h to_hash any? empty? size length count select filter reject filter_map
        min_by max_by find_all compact except invert transform_values transform_keys key value? has_value? rassoc flatten to_proc
        select! filter! reject! keep_if delete_if compact! transform_values! transform_keys! shift inspect to_s == eql? hash < <= > >= sum
      ].freeze

      WHOLE.each do |name|
        define_method(name) do |*arguments, **options, &block|
          read_all
          super(*arguments, **options, &block)
        end
      end

      # The block is given what is there.
      %i[merge merge! update].each do |name|
        define_method(name) do |*others, &block|
          read_all if block
          super(*others, &block)
        end
      end
    end

    # A Rack env. Headers that the front puts right and finds pages by, or that decide nothing but how the answer travels, don't count.
    class Env < Hash
      include Reading
      include Listing

      IGNORED = %w[
        HTTP_HOST HTTP_VERSION HTTP_CONNECTION HTTP_IF_NONE_MATCH HTTP_IF_MODIFIED_SINCE HTTP_X_REQUEST_ID HTTP_X_REQUEST_START
        HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PROTO HTTP_X_FORWARDED_SCHEME HTTP_X_FORWARDED_SSL
        HTTP_ACCEPT_ENCODING HTTP_CACHE_CONTROL HTTP_PRAGMA HTTP_RANGE
        HTTP_IF_RANGE HTTP_X_SENDFILE_TYPE HTTP_X_ACCEL_MAPPING HTTP_UPGRADE HTTP_TE HTTP_TRAILER HTTP_EXPECT
      ].to_h { |name| [name, true] }.freeze

      # What Rack has made of the cookies is a plain hash.
      OTHERS = %w[REMOTE_ADDR rack.request.cookie_hash].to_h { |name| [name, true] }.freeze
      private_constant :OTHERS

      def self.of(env)
        new.replace(env)
      end

      private

      def read(key)
        # Most reads are of keys of Rack's and Rails' own.
        return unless key.is_a?(String) && (key.start_with?("HTTP_") || OTHERS.key?(key)) && !IGNORED.key?(key)

        recording = AutoCache.recording
        return if recording.nil? || recording.quiet?

        # Rails takes the format of each answer from these two, unless the path says it. Of a browser's Accept it only looks that
        # it is one: so does the front.
        return recording.value("request", "accept", place: "") if key == "HTTP_ACCEPT" && by_rails?
        return requested_with(recording) if key == "HTTP_X_REQUESTED_WITH"

        place = AutoCache.readers.reader or return
        case key
        when "HTTP_COOKIE", "rack.request.cookie_hash" then recording.value("cookie", ALL, place: place)
        when "REMOTE_ADDR" then recording.value("request", "address", place: place)
        else recording.value("header", key.delete_prefix("HTTP_").tr("_", "-").downcase, place: place)
        end
      end

      # A page can't be kept for each set of headers that browsers send.
      def read_all
        recording = AutoCache.recording
        return if recording.nil? || recording.quiet?

        place = AutoCache.readers.reader
        recording.untracked("reads all headers", place) if place
      end

      # Of a request by script without Accept, Rails takes the format from its Content-Type.
      def requested_with(recording)
        recording.value("header", "x-requested-with", place: "")
        by_script = recording.quiet { self["HTTP_X_REQUESTED_WITH"] }
        recording.value("header", "content-type", place: "") if by_script
      end

      def by_rails?
        caller_locations(3, 12).any? { |location| location.path.end_with?("/action_dispatch/http/mime_negotiation.rb") }
      end
    end

    # Rack's hash of cookies.
    class Cookies < Hash
      include Reading
      include Listing

      def self.of(cookies)
        new.replace(cookies)
      end

      private

      def read(key)
        AutoCache.cookie(key)
      end

      def read_all
        AutoCache.cookie(ALL)
      end
    end

    # All of it is read.
    ALL = "*"

    class << self
      # A cookie is read. Those of sessions are read by their keys.
      def cookie(name)
        recording = self.recording
        return if recording.nil? || recording.quiet?

        place = readers.reader or return
        recording.value("cookie", name.to_s, place: place)
      end

      # What a client's address may be taken from.
      ADDRESSES = [%w[request address], %w[header x-forwarded-for], %w[header client-ip], %w[header forwarded]].freeze
      private_constant :ADDRESSES

      # The client's address is read, from whatever it was taken.
      def address
        recording = self.recording
        return if recording.nil? || recording.quiet?

        place = readers.reader or return
        ADDRESSES.each { |source, name| recording.value(source, name, place: place) }
      end

      # By which cookie the session is known, as a line of the application shows or stores it.
      def session_id
        recording = self.recording
        return if recording.nil? || recording.quiet?

        place = readers.reader and recording.untracked("reads the session's id", place)
      end

      # What Rails gives a request in place of its session (`protect_from_forgery with: :null_session`): it begins empty, and is thrown away.
      NULL_SESSION = "ActionController::RequestForgeryProtection::ProtectionMethods::NullSession::NullSessionHash"
      # Of one key.
      WRITES = %i[[]= store delete].freeze
      private_constant :NULL_SESSION, :WRITES

      # A key of the session is read, with this value.
      def session(session, name, value)
        recording = self.recording
        return if recording.nil? || recording.quiet? || session.class.name == NULL_SESSION

        session_cookie(recording, session)
        recording.value("session", name.to_s, digest(value))
      end

      # It is written. What it says already, and what it has not and is to forget, changes nothing where the session is the same.
      def session_written(session, name, arguments)
        return if recording.quiet? || session.class.name == NULL_SESSION

        key, value = arguments
        return recording.untracked("writes the session") unless WRITES.include?(name)

        before = recording.quiet { session[key] }
        is_same = name == :delete ? before.nil? : !value.nil? && digest(before) == digest(value)
        is_same ? session(session, key, before) : recording.untracked("writes the session")
      end

      # By which cookie the session is known, and whether it is in there: then the same cookie is always the same session.
      def session_cookie(recording, session)
        store = session.instance_variable_get(:@by) || session.instance_variable_get(:@store)
        options = session.respond_to?(:options) ? session.options : {}
        name = (store.key if store.respond_to?(:key)) || options[:key]
        return recording.untracked("a session without a cookie (#{session.class})") unless name

        keeps = if !in_cookie?(store) then "server"
                elsif options[:expire_after] || options[:expires] then "expires"
                else "browser"
                end
        recording.session_cookie(name.to_s, keeps)
      end

      def in_cookie?(store)
        stores = []
        stores << ActionDispatch::Session::CookieStore if defined?(ActionDispatch::Session::CookieStore)
        stores << Rack::Session::Cookie if defined?(Rack::Session::Cookie)
        stores.any? { |kind| store.instance_of?(kind) }
      end

      # The request is over. Values of the session that were changed in place are written all the same.
      def check_session(recording, session)
        values = recording.session_values
        return if values.empty? || session.nil?

        changed = recording.quiet { values.find { |name, digest| digest(session[name]) != digest } }
        recording.untracked("changes session.#{changed.first}") if changed
      end

      # Tells values apart without showing them. Absent: "".
      def digest(value)
        value.nil? ? "" : Digest::SHA256.hexdigest(Marshal.dump(value))
      rescue TypeError
        recording&.untracked("a value of the session that can't be compared (#{value.class})")
        ""
      end
    end
  end
end
