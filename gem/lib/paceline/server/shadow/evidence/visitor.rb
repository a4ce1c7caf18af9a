# frozen_string_literal: true

# What the application asks of who the visitor is: the session, cookies, credentials, the address, the browser. A page for which nothing of this is asked, and
# that is the same for a visitor who is made up, is everybody's. What a framework reads for its log or for its own ends counts for nothing; a copy of the request
# counts as if all of it were asked for, since nobody sees what is read there. It keeps no value.
require "securerandom"
require_relative "observer"

module Paceline
  module Server
    module Shadow
      class Evidence
        class Visitor < Observer
          CREDENTIALS = "credentials"
          # Of the env's keys, what they are about.
          KINDS = {
            "the cookies" => /\A(?:HTTP_COOKIE|rack\.request\.cookie_\w+|action_dispatch\.cookies)\z/, "the session" => /\Arack\.session(?:\.unpacked_cookie_data)?\z/,
            "the address" => /\A(?:REMOTE_(?:ADDR|HOST|PORT)|HTTP_(?:FORWARDED|\w*(?:CLIENT|REAL|CONNECTING|FORWARDED_FOR)\w*))\z/,
            "the browser" => /\AHTTP_(?:USER_AGENT|ACCEPT_LANGUAGE|REFERER|SEC_CH_\w+|DNT|FROM)\z/,
            CREDENTIALS => /\A(?:REMOTE_USER|AUTH_TYPE|HTTP_(?!X_CSRF_TOKEN|USER_AGENT)\w*(?:KEY|TOKEN|AUTH|SECRET|SESSION|USER|SIGNATURE)\w*)\z/,
            # Any other may tell visitors apart as well, but for what is in each page's URL, or decides how an answer travels.
            "a field of the request" => /\AHTTP_(?!(?:HOST|ACCEPT|ACCEPT_ENCODING|VERSION|CONNECTION|CACHE_CONTROL|X_REQUESTED_WITH|X_REQUEST_ID|X_CSRF_TOKEN)\z|IF_|X_REQUEST_START|X_FORWARDED_(?:HOST|PROTO|PORT|SSL|SCHEME)\z)\w+\z/
          }.freeze
          # Frameworks hand these on as they are. What is watched itself counts when it is read (READING).
          HANDED = /\A(?:rack\.session|action_dispatch\.cookies)\z/
          KEYED = %i[[] fetch dig values_at fetch_values slice key? has_key? include? member? delete assoc].freeze
          # What adds to it, or says nothing of what it has.
          WRITES = %i[[]= store update merge! replace clear rehash size length count empty? default default= default_proc default_proc= compare_by_identity
                      compare_by_identity? hash eql? == initialize_copy].freeze
          WHOLE = (Hash.instance_methods(false) + Enumerable.instance_methods - KEYED - WRITES).uniq.freeze
          COPIED = "HTTP_COOKIE"
          private_constant :CREDENTIALS, :KINDS, :HANDED, :KEYED, :WRITES, :WHOLE, :COPIED

          # What of Rack passes on what it is asked for, as this file does.
          SESSIONS = %r{/rack/session/}
          private_constant :SESSIONS

          # Who reads: the automatic page cache's own way to tell. Nothing of it is there before it is needed.
          def self.readers
            @readers ||= begin
              require_relative "../../../auto_cache/readers"
              passing = ->(path) { path == __FILE__ || SESSIONS.match?(path) }
              Class.new(AutoCache::Readers) do
                define_method(:kind_of) { |path| passing.call(path) ? :passing : super(path) }
                private :kind_of
              end
            end
          end

          # The methods of one env, and of its copies.
          Watching = Module.new do
            KEYED.each do |name|
              define_method(name) do |*keys, &block|
                keys.each { |key| Visitor.active&.key(key, self) }
                super(*keys, &block)
              end
            end
            WHOLE.each do |name|
              define_method(name) do |*arguments, **options, &block|
                Visitor.active&.asked("the whole request")
                super(*arguments, **options, &block)
              end
            end
            %i[dup clone].each { |name| define_method(name) { |**options| super(**options).extend(Watching) } }
          end

          # Of classes of Rails and of Rack, what reads.
          READING = {
            "the session" => [%w[Rack::Session::Abstract::SessionHash ActionDispatch::Request::Session],
                              %i[[] fetch dig key? has_key? include? to_hash to_h keys values each empty? id]],
            "the cookies" => [%w[ActionDispatch::Cookies::CookieJar], %i[[] fetch key? has_key? each to_hash]],
            "the cookies of it" => [%w[Rack::Request ActionDispatch::Request], %i[cookies]],
            "the address" => [%w[Rack::Request ActionDispatch::Request], %i[ip remote_ip]], "the address of it" => [%w[ActionDispatch::RemoteIp::GetIp], %i[to_s]]
          }.freeze
          private_constant :READING
          @watched = {}

          # Puts a hook before those methods that the class has, once.
          def self.watch(name, what, methods)
            return if @watched[[name, what]] || !Guards.loaded?(name)

            @watched[[name, what]] = true
            target = Object.const_get(name)
            target.prepend(Module.new do
              methods.select { |method| target.method_defined?(method) }.each do |method|
                define_method(method) do |*arguments, **options, &block|
                  Visitor.active&.asked(what.delete_suffix(" of it"))
                  super(*arguments, **options, &block)
                end
              end
            end)
          end

          # `root`: the application's folder.
          def initialize(root)
            super(nil)
            @readers = self.class.readers.new(root.to_s)
            @found = {}
          end

          # Nothing is collected until the end: a copy of the env that was made would be gone.
          def start(env)
            super
            @collecting = !GC.disable
            # An object that nobody else has yet.
            @mark = "_#{SecureRandom.hex(8)}"
            @value = env[COPIED] &&= "#{env[COPIED]}; #{@mark}=1"
            env.extend(Watching)
          end

          def stop(env)
            super
            @found["a copy of the request"] ||= "" if copied?(env) || written?
          ensure
            GC.enable if @collecting
          end

          # A key of the env is read.
          def key(key, env)
            return if !key.is_a?(String) || (HANDED.match?(key) && watched?(Hash.instance_method(:fetch).bind_call(env, key, nil)))

            kind = KINDS.find { |_, pattern| pattern.match?(key) } and asked(kind.first)
          end

          def asked(what)
            return if @found[what] || @looking

            @looking = true
            # Nobody reads credentials for a log.
            place = what == CREDENTIALS ? @readers.place : @readers.reader
            @looking = false
            @found[what] = place if place
          end

          # [["the session", "app/models/user.rb:7"], ...]
          def to_a
            @found.to_a
          end

          private

          def install
            READING.each { |what, (classes, methods)| classes.each { |name| self.class.watch(name, what, methods) } }
          end

          def watched?(value)
            value.nil? || READING.each_value.any? { |names,| names.any? { |name| Guards.loaded?(name) && value.is_a?(Object.const_get(name)) } }
          end

          # Whether the request was made a text (JSON.generate), in C, without a word to what watches it. What reads the cookies has parts of them.
          def written?
            return false unless @value

            ObjectSpace.each_object(String).any? do |one|
              one.bytesize > @value.bytesize && one.include?(@mark)
            rescue Encoding::CompatibilityError
              false
            end
          end

          # Whether another Hash has the visitor's cookies. Copies of this one that are watched count when they are read.
          def copied?(env)
            return false unless @value

            fetch = Hash.instance_method(:fetch)
            ObjectSpace.each_object(Hash).any? do |one|
              !one.equal?(env) && fetch.bind_call(one, COPIED, nil).equal?(@value) && !one.is_a?(Watching)
            rescue StandardError
              false
            end
          end
        end
      end
    end
  end
end
