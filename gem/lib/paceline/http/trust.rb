# frozen_string_literal: true

# TLS as Net::HTTP sets it up (`set_params`), with contexts that the whole process shares among calls that want the same, and sessions that are
# resumed. What a call asks for is compared by what it means: equal files, certificates and stores, not the same objects.
require "openssl"
require "resolv"

module Paceline
  module HTTP
    class Trust
      NAMES = Net::HTTP::SSL_IVNAMES.zip(Net::HTTP::SSL_ATTRIBUTES).freeze
      # The usual: nothing but the mode in which OpenSSL verifies by default.
      PLAIN = { verify_mode: OpenSSL::SSL::VERIFY_PEER }.freeze
      MOST = 128
      MOST_SESSIONS = 1024
      private_constant :NAMES, :PLAIN, :MOST, :MOST_SESSIONS

      # A socket that knows where it leads, for the session that the other end gives it.
      class Socket < OpenSSL::SSL::SSLSocket
        attr_accessor :session_key
      end

      @mutex = Thread::Mutex.new
      @all = {}
      @sessions = {}

      class << self
        # What this Net::HTTP asks for; nil: it can't be shared.
        def of(http)
          wanted = nil
          NAMES.each do |variable, name|
            value = http.instance_variable_get(variable)
            (wanted ||= {})[name] = value unless value.nil?
          end
          wanted = with_store(wanted) unless wanted && (wanted[:ca_file] || wanted[:ca_path])
          return usual if wanted.nil? || wanted.empty? || wanted == PLAIN
          return if wanted[:verify_callback] || (wanted[:cert_store] && Stores.peculiar?(wanted[:cert_store]))

          key = wanted.to_a.map { |name, value| meaning(name, value) }
          found = @mutex.synchronize { @all[key] } and return found

          @mutex.synchronize do
            @all.clear if @all.size >= MOST
            @all[key] ||= new(key, wanted)
          end
        end

        # Sessions by destination.
        def session(key)
          found = @mutex.synchronize { @sessions[key] }
          found if found && Process.clock_gettime(Process::CLOCK_REALTIME) < found.time.to_f + found.timeout
        end

        def remember(key, session)
          @mutex.synchronize do
            @sessions.delete(key)
            @sessions.shift if @sessions.size >= MOST_SESSIONS
            @sessions[key] = session
          end
        end

        private

        def usual
          @usual ||= new([], PLAIN)
        end

        # A store with the system's certificates is the same as none, as long as nobody has put others into the one that is taken then.
        def with_store(wanted)
          store = wanted && wanted[:cert_store]
          if Stores.content(Stores::DEFAULT) == Stores::SYSTEM
            wanted.delete(:cert_store) if store && Stores.content(store) == Stores::SYSTEM
            wanted
          else
            store ? wanted : { cert_store: Stores::DEFAULT, **(wanted || {}) }
          end
        end

        def meaning(name, value)
          case name
          when :ca_file, :ca_path then [name, value.to_s, changed(value)]
          when :cert_store then [name, content(value) || value]
          when :cert then [name, value.to_der]
          when :extra_chain_cert then [name, value.map(&:to_der)]
          when :key then [name, OpenSSL::Digest::SHA256.digest(value.private_to_der)]
          else [name, value]
          end
        rescue OpenSSL::OpenSSLError, NoMethodError # a key that is kept by a token
          [name, value]
        end

        # What is in it, with the state of its files.
        def content(store)
          Stores.content(store)&.map { |kind, what| [kind, what, (changed(what) if kind == :file)] }
        end

        def changed(path)
          stat = File.stat(path)
          [stat.mtime, stat.size, stat.ino]
        rescue SystemCallError, TypeError
          nil
        end
      end

      attr_reader :key, :wanted

      def initialize(key, wanted)
        @key = key.freeze
        @wanted = wanted.dup.freeze
        @contexts = {}
        @mutex = Thread::Mutex.new
      end

      # Shakes hands on a connected socket, in the steps and with the errors of Net::HTTP#connect. `session_key`: of the destination; `timeout` in
      # s or nil; the block waits for the handshake.
      def secure(socket, host, session_key)
        # Net::HTTP looks at the name after the handshake; an address is no name that a server could be told (RFC 6066 section 3).
        name = host unless host.match?(Resolv::IPv4::Regex) || host.match?(Resolv::IPv6::Regex)
        context = context(!name)
        secured = Socket.new(socket, context)
        secured.sync_close = true
        secured.session_key = session_key
        secured.hostname = name if name
        session = Trust.session(session_key)
        secured.session = session if session
        yield secured
        secured.post_connection_check(host) if context.verify_mode != OpenSSL::SSL::VERIFY_NONE && @wanted[:verify_hostname] != false
        secured
      end

      private

      def context(of_address)
        @mutex.synchronize { @contexts[of_address] ||= make(of_address) }
      end

      def make(of_address)
        context = OpenSSL::SSL::SSLContext.new
        context.set_params(@wanted.merge(own_store))
        context.session_cache_mode = OpenSSL::SSL::SSLContext::SESSION_CACHE_CLIENT | OpenSSL::SSL::SSLContext::SESSION_CACHE_NO_INTERNAL_STORE
        context.session_new_cb = proc { |socket, session| Trust.remember(socket.session_key, session) }
        context.verify_hostname = false if of_address
        context.setup
        context
      end

      # The store is one of our own if its content is known, since OpenSSL puts the files that are named beside it into it.
      def own_store
        given = @wanted[:cert_store] or return {}
        content = Stores.content(given) or return {}
        store = OpenSSL::X509::Store.new
        content.each do |kind, what|
          case kind
          when :defaults then store.set_default_paths
          when :file then store.add_file(what)
          when :path then store.add_path(what)
          when :certificate then store.add_cert(OpenSSL::X509::Certificate.new(what))
          end
        end
        { cert_store: store }
      end
    end
  end
end
