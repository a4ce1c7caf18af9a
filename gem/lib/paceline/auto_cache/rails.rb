# frozen_string_literal: true

# What Rails and Rack hand to the application: cookies, the session, CSRF tokens, Rails.cache. Changes none of it.
module Paceline
  module AutoCache
    module Rails
      def self.install
        Rack::Request.prepend(RackCookies) if defined?(Rack::Request)
        Rack::Session::Abstract::SessionHash.prepend(Session) if defined?(Rack::Session::Abstract::SessionHash)
        ActiveSupport::Cache::Store.prepend(CacheStore) if defined?(ActiveSupport::Cache::Store)
        return unless defined?(ActionDispatch::Request)

        require "action_dispatch/middleware/cookies"
        require "action_dispatch/request/session"
        ActionDispatch::Request.prepend(RackCookies)
        ActionDispatch::Cookies::CookieJar.prepend(Jar)
        ActionDispatch::Request::Session.prepend(Session)
        ActiveSupport.on_load(:action_controller_base) { prepend Tokens }
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
          AutoCache.session(key, value) if AutoCache.recording
          value
        end

        def dig(key, *)
          # The rest is within the value.
          AutoCache.recording.nil? ? super : (self[key] && super)
        end

        def key?(key)
          found = super
          AutoCache.session(key, AutoCache.recording&.quiet { self[key] }) if AutoCache.recording
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
          AutoCache.session(key, value) if AutoCache.recording
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
          action, method = form_options.values_at(:action, :method)
          path = normalize_action_path(action) if per_form_csrf_tokens && action && method
          recording.token(path, path && method, [secret].pack("m0"))
          token
        end
      end

      # A page depends on the entries that it reads. Writes are told before, so that nobody can see them earlier than the front, and
      # after, because of those who have read the old entry in between.
      module CacheStore
        %i[read fetch exist?].each do |name|
          define_method(name) do |key, *arguments, **options, &block|
            AutoCache.recording&.cache_key(normalize_key(key, {}).to_s)
            super(key, *arguments, **options, &block)
          end
        end

        %i[read_multi fetch_multi].each do |name|
          define_method(name) do |*keys, **options, &block|
            keys.each { |key| AutoCache.recording&.cache_key(normalize_key(key, {}).to_s) }
            super(*keys, **options, &block)
          end
        end

        %i[write delete increment decrement].each do |name|
          define_method(name) do |key, *arguments, **options, &block|
            told = normalize_key(key, {}).to_s
            AutoCache.journal&.keys(told)
            result = super(key, *arguments, **options, &block)
            AutoCache.journal&.keys(told)
            result
          end
        end

        %i[clear delete_matched cleanup].each do |name|
          define_method(name) do |*arguments, **options, &block|
            AutoCache.journal&.keys(ALL)
            result = super(*arguments, **options, &block)
            AutoCache.journal&.keys(ALL)
            result
          end
        end
      end
    end
  end
end
