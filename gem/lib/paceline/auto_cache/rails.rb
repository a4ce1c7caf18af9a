# frozen_string_literal: true

# What Rails and Rack hand to the application: cookies, the session, CSRF tokens, Rails.cache. Changes none of it.
module Paceline
  module AutoCache
    module Rails
      def self.install
        [RackCookies, Addresses, Address, Jar, Session, SessionOptions, Tokens, Entry].each { |hooks| Hooks.reading(hooks) }
        Hooks.reading(CacheStore, CacheStore::READS)
        Rack::Request.prepend(RackCookies) if defined?(Rack::Request)
        Rack::Session::Abstract::SessionHash.prepend(Session) if defined?(Rack::Session::Abstract::SessionHash)
        follow_cache
        return unless defined?(ActionDispatch::Request)

        require "action_dispatch/middleware/cookies"
        require "action_dispatch/request/session"
        ActionDispatch::Request.prepend(RackCookies)
        ActionDispatch::Request.prepend(Addresses)
        ActionDispatch::RemoteIp::GetIp.prepend(Address)
        ActionDispatch::Cookies::CookieJar.prepend(Jar)
        ActionDispatch::Request::Session.prepend(Session)
        ActionDispatch::Request::Session::Options.prepend(SessionOptions)
        # The action runs in a thread that knows no request.
        Hooks.on(ActionController::Live, [:new_controller_thread]) { live } if defined?(ActionController::Live)
        ActiveSupport.on_load(:action_controller_base) { prepend Tokens }
      end

      def self.live
        AutoCache.recording.untracked("is made by a thread of its own (ActionController::Live)")
      end

      def self.follow_cache
        return unless defined?(ActiveSupport::Cache::Store)

        # Stores have methods of their own in place of Store's, and may be loaded later.
        store = ActiveSupport::Cache::Store
        store.singleton_class.prepend(Stores)
        ObjectSpace.each_object(store.singleton_class).reject(&:singleton_class?).each { |kind| kind.prepend(CacheStore) }
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

      # Rails takes the address once for each request, and mostly for its log. What it keeps then is read all the same.
      module Addresses
        def ip
          AutoCache.address
          super
        end

        def remote_ip
          AutoCache.address
          super
        end
      end

      module Address
        def to_s
          AutoCache.address
          super
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

        # One that is not there is not deleted either.
        def delete(name, *)
          AutoCache.cookie(name)
          super
        end

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
          recording = AutoCache.recording
          recording.untracked("sets the cookie #{name}") if recording && AutoCache.readers.reader
          super
        end
      end

      # Rack's and Rails' sessions.
      module Session
        def [](key)
          value = super
          AutoCache.session(self, key, value) if AutoCache.recording
          value
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
            AutoCache.session_written(self, name, arguments) unless token || AutoCache.recording.nil?
            super(*arguments, &block)
          end
        end
      end

      # `request.session_options`.
      module SessionOptions
        def [](key)
          AutoCache.session_id if key == :id
          super
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

      # Classes of stores that come.
      module Stores
        def inherited(kind)
          super
          kind.prepend(CacheStore)
        end
      end

      # A page depends on the entries that it reads. Each write waits for the front, as a commit does. When an entry expires by itself
      # nobody writes, so a page that reads one is not kept.
      module CacheStore
        # The variable of a thread with the keys that it has announced and is about to write.
        WRITING = :paceline_auto_cache_writing
        READS = %i[read fetch exist? read_multi fetch_multi handle_expired_entry].freeze
        private_constant :WRITING

        %i[read fetch].each do |name|
          define_method(name) do |key, *arguments, **options, &block|
            paceline_read_one(key, arguments.last.is_a?(Hash) ? arguments.last : options)
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
          counts = name.end_with?("crement")
          define_method(name) do |key, *arguments, **options, &block|
            paceline_counted if counts
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

        def paceline_read_one(key, options)
          recording = AutoCache.recording or return
          recording.cache_key(normalize_key(key, {}).to_s)
          # It has no entry around it that says when it expires.
          recording.untracked("reads a raw entry of Rails.cache, which may expire") if options[:raw]
        end

        # A line of the application that counts in each request: a page in its place would not count.
        def paceline_counted
          recording = AutoCache.recording
          place = AutoCache.readers.reader if recording && !recording.quiet?
          recording.untracked("counts in Rails.cache", place) if place && !place.start_with?("/")
        end

        # Whether they expire can't be seen.
        def paceline_read(keys, options)
          recording = AutoCache.recording or return
          keys.each { |key| recording.cache_key(normalize_key(key, {}).to_s) }
          recording.untracked("reads entries of Rails.cache that expire") if options[:raw] || merged_options(options)[:expires_in]
        end

        def handle_expired_entry(entry, *)
          AutoCache.recording&.untracked("reads an entry of Rails.cache that expires") if entry.respond_to?(:expires_at) && entry.expires_at
          super
        end

        def paceline_written(*keys)
          AutoCache.recording&.keeps("an entry of Rails.cache")
          journal = AutoCache.journal or return yield
          outer = Thread.current.thread_variable_get(WRITING)
          # The store's own method calls Store's, or writes its keys by another one.
          return yield if outer && (outer.include?(ALL) || (keys - outer).empty?)

          id = journal.intend_keys(keys)
          begin
            Thread.current.thread_variable_set(WRITING, keys)
            result = yield
            done = "commit"
            result
          ensure
            Thread.current.thread_variable_set(WRITING, outer)
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
