# frozen_string_literal: true

require "stringio"

# Fragments of pages: left to the server where it offers ESI, and rendered in place where nobody does (Puma, a test), so that a page
# is the same everywhere. Never asks over the network.
module Paceline
  # Markup for what the app shows under `path` (from the first slash on, without a host): an <esi:include/>, together with the
  # response field that asks for ESI; or, where the request has no surrogate that knows ESI, the fragment itself, in a page that
  # is then private.
  #
  # `headers`: the response's, changed. `app`: what answers `path` where the server does not; Rails' routes by default.
  # `alt`: another path, should the first fail; `onerror: "continue"`: nothing, should all fail.
  #
  # Raises ArgumentError for a path that is none, and ESI::Failed for a fragment rendered in place that failed.
  def self.esi_include(env, path, headers:, alt: nil, onerror: nil, app: nil)
    paths = [path, *alt].map { |one| ESI.path(one) }
    raise ArgumentError, "onerror must be \"continue\" or nil, not #{onerror.inspect}" unless [nil, "continue"].include?(onerror)
    if ESI.offered?(env)
      ESI.ask(headers)
      return ESI.tag(*paths, onerror: onerror)
    end
    ESI.personal(headers)
    ESI.inline(env, paths, onerror, app)
  end

  module ESI
    # A fragment that was rendered in place was no success.
    class Failed < StandardError; end

    CAPABILITY = %r{(?:\A|["=\s])ESI/1\.0(?=["\s,;]|\z)}
    CONTENT = /content="[^"]*\bESI\/1\.0[\s"]/
    ABOUT_THE_TEMPLATE = /\A(?:(?:paceline-|cdn-)?cache-control|surrogate-control|expires|pragma|etag|last-modified)\z/i
    # Fragments in fragments, as deep as the server goes.
    DEPTH = 5
    # What of the environment speaks of the page's request alone.
    OF_THE_PAGE = /\A(?:CONTENT_|HTTP_(?:IF_|RANGE\z|ACCEPT_ENCODING\z|CONTENT_|TRANSFER_ENCODING\z|UPGRADE\z|EXPECT\z)|ROUTES_|ORIGINAL_
      |rack\.(?:request\.|input|hijack|early_hints|after_reply|response_finished|methodoverride)
      |action_dispatch\.(?:request\.|cookies\z|exception|report_exception)|action_controller\.|sinatra\.|router\.|paceline\.)/x

    class << self
      # Whether a surrogate between the client and the app puts pages together.
      def offered?(env) = CAPABILITY.match?(env["HTTP_SURROGATE_CAPABILITY"].to_s)

      # A path as it may stand in a page: of this site, without variables that it did not mean.
      def path(text)
        text = text.to_s
        return text.gsub("$", "%24") if text.match?(%r{\A/(?:[^/\\\s][^\\\s]*)?\z})
        raise ArgumentError, "a fragment must be a path on this site, such as /cart, not #{text.inspect}"
      end

      def tag(src, alt = nil, onerror: nil)
        attributes = { "src" => src, "alt" => alt, "onerror" => onerror }.compact
        "<esi:include #{attributes.map { |name, value| "#{name}=\"#{escape(value)}\"" }.join(" ")}/>"
      end

      # Adds to Surrogate-Control that the page has ESI in it.
      def ask(headers)
        name = headers.keys.find { |key| key.to_s.casecmp?("surrogate-control") } || "surrogate-control"
        said = headers[name].to_s
        headers[name] = said.empty? ? "content=\"ESI/1.0\"" : "#{said}, content=\"ESI/1.0\"" unless CONTENT.match?(said)
      end

      # A page with fragments in it is nobody else's, whatever was said of it without them.
      def personal(headers)
        headers.keys.grep(ABOUT_THE_TEMPLATE).each { |name| headers.delete(name) }
        headers["cache-control"] = "max-age=0, private, must-revalidate"
      end

      # The first of the paths that is a success.
      def inline(env, paths, onerror, app)
        trouble = nil
        paths.each do |path|
          return fetch(env, path, app)
        rescue StandardError => error
          trouble = error
        end
        onerror ? "" : raise(trouble)
      end

      private

      def fetch(env, path, app)
        depth = env.fetch("paceline.esi.depth", 1)
        raise Failed, "#{path}: fragments are nested deeper than #{DEPTH}" if depth > DEPTH
        status, _, body = (app || routes).call(request(env, path, app, depth))
        text = +""
        body.each { |piece| text << piece.to_s.dup.force_encoding(Encoding::UTF_8) }
        raise Failed, "#{path}: status #{status}" unless (200..299).cover?(status.to_i)
        text
      ensure
        body.close if body.respond_to?(:close)
      end

      # Below the middleware: the page's request has been through it, and a second time would end what surrounds that one.
      def routes
        raise ArgumentError, "without Rails, pass the app that answers fragments: app: self.class" unless defined?(::Rails.application.routes)
        ::Rails.application.routes
      end

      def request(env, path, app, depth)
        root = app ? env["SCRIPT_NAME"].to_s : ::Rails.application.config.relative_url_root.to_s
        path, query = path.split("#", 2).first.split("?", 2)
        info = path.start_with?("#{root}/") || path == root ? path.delete_prefix(root) : path
        env.reject { |name, _| OF_THE_PAGE.match?(name) }.merge("REQUEST_METHOD" => "GET", "SCRIPT_NAME" => root, "PATH_INFO" => info,
          "QUERY_STRING" => query.to_s, "REQUEST_URI" => [path, query].compact.join("?"), "rack.input" => StringIO.new("".b), "rack.hijack?" => false,
          "paceline.esi.depth" => depth + 1)
      end

      def escape(text) = text.gsub(/[&<>"]/, "&" => "&amp;", "<" => "&lt;", ">" => "&gt;", '"' => "&quot;")
    end

    # In Rails' views: <%= esi_include cart_path %>
    module Helper
      def esi_include(path, alt: nil, onerror: nil)
        response = controller.response
        # What expires_in and its like have said goes before the field.
        response.cache_control.clear unless ESI.offered?(request.env)
        Paceline.esi_include(request.env, path, headers: response.headers, alt: alt, onerror: onerror).html_safe
      end
    end
  end
end
