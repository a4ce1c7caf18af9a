# frozen_string_literal: true

# Takes out of Rails' middleware what the front does for each response anyway: files below `public`, HEAD without a body, entity tags with their 304.
# In config/application.rb:
#
#   config.paceline.front = true
#
# What of it stays, because something else needs it, is said once on standard error. Nothing changes where the application runs under another server, in a
# console, a task or a test.
require "rack/conditional_get"
require "rack/etag"
require "rack/head"
require "rack/sendfile"
require "action_dispatch"

module Paceline
  module FrontStack
    # In place of Rack::ETag and Rack::ConditionalGet: sets Cache-Control as the former does, and marks the response for the front, which makes the tag of
    # the body and compares it with what the client has.
    class Validation < ::Rack::ETag
      FIELD = "paceline-validation"
      # The front makes the tag.
      TAG = "tag"
      # The response has its own.
      OWN = "own"
      # Larger bodies, in bytes, are hashed here: the front's event loop must not wait for them.
      LARGEST = 64 * 1024

      def call(env)
        status, headers, body = response = @app.call(env)
        return in_ruby(env, response) if !body.respond_to?(:to_ary) || headers.key?("rack.hijack")

        may_have_tag = (status == 200 || status == 201) && !skip_caching?(headers)
        mark = tag(env, headers, response[2] = body.to_ary) if may_have_tag
        control = mark || may_have_tag && headers.key?(ETAG_STRING) ? @cache_control : @no_cache_control
        headers[::Rack::CACHE_CONTROL] ||= control if control
        mark ||= OWN if status == 200 && conditional?(env)
        headers[FIELD] = mark if mark
        response
      end

      private

      # Of a stream or a file, whose headers may be on their way, and of a connection that the application takes over.
      def in_ruby(env, response)
        ::Rack::ConditionalGet.new(::Rack::ETag.new(->(_) { response }, @no_cache_control, @cache_control)).call(env)
      end

      # TAG, if the front is to make it. nil: it is there, or the body is empty.
      def tag(env, headers, parts)
        size = parts.sum(&:bytesize)
        return if size.zero?
        return TAG if size <= LARGEST && env[::Rack::REQUEST_METHOD] != ::Rack::HEAD

        headers[ETAG_STRING] = %(W/"#{digest_body(parts)}")
        nil
      end

      def conditional?(env)
        env.key?("HTTP_IF_NONE_MATCH") || env.key?("HTTP_IF_MODIFIED_SINCE")
      end
    end

    # Middleware that changes or keeps responses outside of Rack::ETag: the tag has to be there when they see them.
    NEED_TAG = %w[Rack::Cache Rack::Deflater].freeze
    private_constant :NEED_TAG

    class << self
      # Has the stack of `app` reduced when it is complete. `served`: the folder whose files the front serves, or nil.
      def install(app, served:)
        last = ->(stack) { reduce(stack, public_folder: app.paths["public"].first, served: served).each { |why| warn "paceline: config.paceline.front: #{why}" } }
        # Operations of this second list come after all others.
        app.config.middleware += ::Rails::Configuration::MiddlewareStackProxy.new([], [last])
      end

      # Takes out what the front does; the reasons why something stays.
      def reduce(stack, public_folder:, served:)
        stack.delete(::Rack::Head)
        # Without a field it never does anything: the server passes on none of a client's.
        stack.delete(::Rack::Sendfile) if find(stack, "Rack::Sendfile")&.args&.first.to_s.empty?
        [leave_files(stack, public_folder, served), leave_validation(stack)].compact
      end

      private

      def leave_files(stack, public_folder, served)
        static = find(stack, "ActionDispatch::Static") or return
        folder, options = static.args
        return "ActionDispatch::Static stays, since the front serves no files of #{public_folder}" unless served && same?(folder, served) && same?(folder, public_folder)
        return "ActionDispatch::Static stays, since public_file_server.index_name is set" unless (options || {}).fetch(:index, "index") == "index"

        stack.delete(::ActionDispatch::Static)
        nil
      end

      def leave_validation(stack)
        etag = find(stack, "Rack::ETag")
        return unless etag && find(stack, "Rack::ConditionalGet")
        return "Rack::ETag stays: Rack 3 is needed, and this is #{::Rack.release}" if ::Rack.release.to_i < 3

        needing = NEED_TAG.find { |name| find(stack, name) }
        return "Rack::ETag stays, since #{needing} needs its tag" if needing

        stack.swap(::Rack::ETag, Validation, *etag.args)
        stack.delete(::Rack::ConditionalGet)
        nil
      end

      def find(stack, name)
        stack.find { |middleware| middleware.name == name }
      end

      def same?(one, other)
        File.realpath(one) == File.realpath(other)
      rescue SystemCallError
        false
      end
    end
  end
end
