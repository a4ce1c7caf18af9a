# frozen_string_literal: true

# What Rails and Rack hand to the application: cookies, the session, CSRF tokens, Rails.cache. Changes none of it.
module Paceline
  module AutoCache
    module Rails
      def self.install
        Rack::Request.prepend(RackCookies) if defined?(Rack::Request)
        Rack::Session::Abstract::SessionHash.prepend(Session) if defined?(Rack::Session::Abstract::SessionHash)
        follow_cache
        return unless defined?(ActionDispatch::Request)

        require "action_dispatch/middleware/cookies"
        require "action_dispatch/request/session"
        ActionDispatch::Request.prepend(RackCookies)
        ActionDispatch::Cookies::CookieJar.prepend(Jar)
        ActionDispatch::Request::Session.prepend(Session)
        ActiveSupport.on_load(:action_controller_base) { prepend Tokens }
      end

      def self.follow_cache
        return unless defined?(ActiveSupport::Cache::Store)

        ActiveSupport::Cache::Store.prepend(CacheStore)
        ActiveSupport::Cache::Entry.prepend(Entry)
      end

      module RackCookies
        def cookies
          recording = AutoCache.recording or return super
          # Rack reads all of them, and each is recorded when the application reads it.
          found = recording.quiet { super() }
          return found if found.is_a?(Cookies)

          env["paceline.auto_cache.cookies"] ||= Cookies.of(found)
        end
      end

      module Jar
        def [](name)
          AutoCache.cookie(name)
          super
        end

        def fetch(name, *, &)
          AutoCache.cookie(name)
          super
        end

        def key?(name)
          AutoCache.cookie(name)
          super
        end
        alias has_key? key?

        def each(&)
          AutoCache.cookie(ALL)
          super
        end

        def to_hash
          AutoCache.cookie(ALL)
          super
        end

        # The jar takes Rack's cookies, and each is recorded when it is read from there.
        def update(*)
          AutoCache.recording ? AutoCache.recording.quiet { super } : super
        end

        def []=(name, options)
          AutoCache.recording&.untracked("sets the cookie #{name}") if AutoCache.readers.reader
          super
        end
      end

      # Rack's and Rails' sessions.
      module Session
        def [](key)
          paceline_read(key) { super }
        end

        def fetch(key, *, &)
          value = super
          AutoCache.session(self, key, value) if AutoCache.recording
          value
        end

        def dig(key, *)
          # The rest is within the value.
          AutoCache.recording.nil? ? super : (self[key] && super)
        end

        def key?(key)
          found = super
          AutoCache.session(self, key, AutoCache.recording&.quiet { self[key] }) if AutoCache.recording
          found
        end
        alias has_key? key?
        alias include? key?

        %i[to_hash to_h keys values each empty? id].each do |name|
          define_method(name) do |*arguments, &block|
            # Rails and Rack read all of it to store it.
            recording = AutoCache.recording
            if recording && !recording.quiet? && (place = recording.quiet { AutoCache.readers.reader })
              recording.untracked("reads the whole session (#{name})", place)
            end
            super(*arguments, &block)
          end
        end

        %i[[]= store delete clear update merge! replace destroy].each do |name|
          define_method(name) do |*arguments, &block|
            # The token is a place of the page. From Rails 7.1 on it is stored once more by each request that used it.
            token = arguments.first.to_s == "_csrf_token"
            AutoCache.recording&.untracked("writes the session") unless token
            super(*arguments, &block)
          end
        end

        private

        def paceline_read(key)
          value = yield
          AutoCache.session(self, key, value) if AutoCache.recording
          value
        end
      end

      # Rails' tokens: places of the page, not what it depends on.
      module Tokens
        private

        def masked_authenticity_token(*arguments, form_options: {}, **options)
          recording = AutoCache.recording
          return super if recording.nil? || recording.quiet?

          options[:form_options] = form_options
          token = recording.quiet { super(*arguments, **options) }
          secret = recording.quiet { real_csrf_token(session) }
          paceline_keeps_token(recording)
          action, method = form_options.values_at(:action, :method)
          path = normalize_action_path(action) if per_form_csrf_tokens && action && method
          recording.token(path, path && method, [secret].pack("m0"))
          token
        end

        # From Rails 7.1 on its secret may be elsewhere.
        def paceline_keeps_token(recording)
          kept = csrf_token_storage_strategy if respond_to?(:csrf_token_storage_strategy, true)
          return AutoCache.session_cookie(recording, session) if kept.nil? || kept.class.name.end_with?("::SessionStore")

          recording.untracked("keeps its CSRF tokens outside of the session (#{kept.class})")
        end
      end

      # A page depends on the entries that it reads. Each write waits for the front, as a commit does. When an entry expires by itself
      # nobody writes, so a page that reads one is not kept.
      module CacheStore
        %i[read fetch].each do |name|
          define_method(name) do |key, *arguments, **options, &block|
            AutoCache.recording&.cache_key(normalize_key(key, {}).to_s)
            super(key, *arguments, **options, &block)
          end
        end

        def exist?(key, *arguments, **options)
          paceline_read([key], options)
          super
        end

        %i[read_multi fetch_multi].each do |name|
          define_method(name) do |*keys, **options, &block|
            paceline_read(keys, options)
            super(*keys, **options, &block)
          end
        end

        %i[write delete increment decrement].each do |name|
          define_method(name) do |key, *arguments, **options, &block|
            paceline_written(normalize_key(key, {}).to_s) { super(key, *arguments, **options, &block) }
          end
        end

        %i[clear delete_matched cleanup].each do |name|
          define_method(name) do |*arguments, **options, &block|
            paceline_written(ALL) { super(*arguments, **options, &block) }
          end
        end

        %i[write_multi delete_multi].each do |name|
          define_method(name) do |*arguments, **options, &block|
            named = arguments.first || options
            keys = named.respond_to?(:keys) ? named.keys : named
            paceline_written(*keys.map { |key| normalize_key(key, {}).to_s }) { super(*arguments, **options, &block) }
          end
        end

        private

        # Whether they expire can't be seen.
        def paceline_read(keys, options)
          recording = AutoCache.recording or return
          keys.each { |key| recording.cache_key(normalize_key(key, {}).to_s) }
          recording.untracked("reads entries of Rails.cache that expire") if merged_options(options)[:expires_in]
        end

        def handle_expired_entry(entry, *)
          AutoCache.recording&.untracked("reads an entry of Rails.cache that expires") if entry.respond_to?(:expires_at) && entry.expires_at
          super
        end

        def paceline_written(*keys)
          journal = AutoCache.journal or return yield
          id = journal.intend_keys(keys)
          begin
            result = yield
            done = "commit"
            result
          ensure
            journal.done(id, done || "unknown")
          end
        end
      end

      # An entry of Rails.cache: each way of reading one looks whether it has expired.
      module Entry
        def expired?
          AutoCache.recording&.untracked("reads an entry of Rails.cache that expires") if expires_at
          super
        end
      end
    end
  end
end
