# frozen_string_literal: true

# Paceline::HTTP.get and its like, and `all`: each call is a Net::HTTP request in a session of its own, on a lent connection.
require "uri"

module Paceline
  module HTTP
    # Net::HTTP's request, which does not spell the names of its fields anew each time.
    class Request < Net::HTTPGenericRequest
      KNOWN_MAX = 1000
      private_constant :KNOWN_MAX

      @spelt = {}

      class << self
        attr_reader :spelt
      end

      private

      def capitalize(name)
        Request.spelt[name] || super.tap { |spelt| Request.spelt[-name.to_s] = spelt if Request.spelt.size < KNOWN_MAX }
      end
    end
    private_constant :Request

    # One call: what is asked for, and how.
    class Call
      METHODS = %i[get head post put patch delete options].freeze
      TIMES = %i[open_timeout read_timeout write_timeout].freeze
      SSL = %i[ca_file ca_path cert_store cert key extra_chain_cert min_version max_version verify_mode verify_hostname ciphers].freeze
      KNOWN = [*TIMES, :timeout, :deadline, :proxy, *SSL].freeze
      PLAIN = %r{\A(https?)://([A-Za-z0-9.-]+)(?::(\d{1,5}))?(/[^?#\s]*)?(\?[^#\s]*)?\z}
      NO_BODY = { "HEAD" => true }.freeze
      private_constant :TIMES, :SSL, :KNOWN, :PLAIN, :NO_BODY

      # See Paceline::HTTP.request.
      def initialize(method, url, headers: nil, params: nil, body: nil, form: nil, json: nil, **options, &block)
        unknown = options.keys - KNOWN
        raise ArgumentError, "unknown option #{unknown[0].inspect}: the options are #{KNOWN.join(", ")}" unless unknown.empty?
        raise ArgumentError, "use only one of body:, form: and json:" if [body, form, json].compact.size > 1

        @method = method.to_s.upcase
        @url = url.to_s
        @options = options
        @block = block
        take_apart(params)
        take_body(headers&.transform_keys(&:to_s), body, form, json)
      end

      # Makes the call. Returns a Response; raises as Net::HTTP does.
      def perform
        limit = @options[:deadline]
        limit ? Deadline.within(limit) { exchange } : exchange
      end

      # Makes the call. Returns a Response, which has the error if there was one.
      def outcome
        perform
      rescue StandardError => e
        Response.new(e, @url)
      end

      private

      def take_apart(params)
        if (found = PLAIN.match(@url))
          tls, @host, port, path, query = found[1] == "https", found[2], found[3]&.to_i, found[4], found[5]
          @path = "#{path || "/"}#{query}"
        else
          uri = @url.is_a?(String) ? URI.parse(@url) : @url
          raise ArgumentError, "#{@url.inspect} is not an http or https URL" unless uri.is_a?(URI::HTTP) && uri.hostname && !uri.hostname.empty?

          tls, @host, port, @path = uri.scheme == "https", uri.hostname, uri.port, uri.request_uri
          @user, @password = [uri.user, uri.password].map { |word| word && URI.decode_www_form_component(word) } if uri.user
        end
        @tls = tls
        @port = port || (tls ? 443 : 80)
        return if params.nil? || params.empty?

        @path += "#{@path.include?("?") ? "&" : "?"}#{URI.encode_www_form(params)}"
      end

      def take_body(headers, body, form, json)
        if json
          require "json"
          body = JSON.generate(json)
          type = "application/json"
        elsif form
          body = URI.encode_www_form(form)
          type = "application/x-www-form-urlencoded"
        elsif body && !body.respond_to?(:read)
          type = "application/octet-stream"
        end
        named = headers&.each_key&.any? { |name| name.casecmp?("content-type") }
        headers = (headers || {}).merge("Content-Type" => type) if type && !named
        @headers = headers
        @body = body
      end

      def exchange
        http = session
        req = request
        return Response.new(http.request(req), @url) unless @block

        response = http.request(req) { |incoming| incoming.read_body(&@block) }
        response.body = nil
        Response.new(response, @url)
      end

      def request
        req = Request.new(@method, !@body.nil? || %w[POST PUT PATCH].include?(@method), !NO_BODY[@method], @path, @headers)
        req.basic_auth(@user, @password) if @user
        if @body.respond_to?(:read)
          req.body_stream = @body
          frame(req)
        elsif @body
          req.body = @body
        end
        req
      end

      # A body that comes from somewhere: with its length if it knows it.
      def frame(req)
        return if req.content_length || req.chunked?

        @body.respond_to?(:size) && @body.size ? req.content_length = @body.size - (@body.respond_to?(:pos) ? @body.pos : 0) : req["Transfer-Encoding"] = "chunked"
        req.content_type = "application/octet-stream" unless req.content_type
      end

      def session
        http = @options.key?(:proxy) ? through(@options[:proxy]) : Session.now.new(@host, @port)
        http.use_ssl = true if @tls
        http.max_retries = 0
        return http if @options.empty?

        every = @options[:timeout]
        TIMES.each { |name| http.public_send(:"#{name}=", @options.fetch(name, every)) if @options.key?(name) || every }
        SSL.each { |name| http.public_send(:"#{name}=", @options[name]) if @options.key?(name) }
        http
      end

      # `proxy`: a URL, or nil for none, whatever the environment says.
      def through(proxy)
        return Session.now.new(@host, @port, nil) if proxy.nil?

        proxy = URI.parse(proxy.to_s)
        raise ArgumentError, "proxy: #{proxy} is not an http URL" unless proxy.instance_of?(URI::HTTP) && proxy.hostname

        user, password = [proxy.user, proxy.password].map { |word| word && URI.decode_www_form_component(word) }
        Session.now.new(@host, @port, proxy.hostname, proxy.port, user, password)
      end
    end
    private_constant :Call

    # What `all` yields: collects calls. Each method returns the place in `all`'s result.
    class Calls
      Call::METHODS.each do |name|
        define_method(name) { |url, **options, &block| request(name, url, **options, &block) }
      end

      def initialize
        @calls = []
      end

      # See Paceline::HTTP.request.
      def request(method, url, **options, &block)
        @calls << Call.new(method, url, **options, &block)
        @calls.size - 1
      end

      # Makes them all.
      def perform(at_once)
        outcomes = Array.new(@calls.size)
        Together.run(@calls.each_with_index.map { |call, number| -> { outcomes[number] = call.outcome } }, at_once)
        outcomes
      end
    end

    class << self
      # Makes a call and returns a Response, whatever its status. `method`: a Symbol or String.
      # `headers`, `params` (for the query): Hashes; `body`: a String or IO, or `form:`, `json:` in its place.
      # `timeout` for each of `open_timeout`, `read_timeout`, `write_timeout` (s, default 60); `deadline`: for the whole call (s, default none).
      # `proxy`: a URL, nil for none; default: what the environment says. `ca_file` and the other TLS settings have Net::HTTP's names.
      # With a block the body is given to it in pieces as it comes. Raises what Net::HTTP raises; ArgumentError for what makes no sense.
      def request(method, url, **options, &block)
        Call.new(method, url, **options, &block).perform
      end

      Call::METHODS.each do |name|
        define_method(name) { |url, **options, &block| request(name, url, **options, &block) }
      end

      # Yields an object with `get`, `post` and so on, and makes all these calls at once (`at_once` of them). Returns their Responses in the order
      # of the calls; one that failed has an `error`, and raises it when it is asked for anything else.
      def all(at_once: 32)
        calls = Calls.new
        yield calls
        account = Account.current
        account ? account.during { calls.perform(at_once) } : calls.perform(at_once)
      end
    end
  end
end
