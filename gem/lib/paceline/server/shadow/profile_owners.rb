# frozen_string_literal: true

require_relative "evidence/middleware_chain"

# In which middleware a stack is: in the one whose `call` is its innermost, unless the application behind all of them has been called. It only reads.
module Paceline
  module Server
    module Shadow
      class ProfileOwners
        # `app`: the whole application; nil: Rails'.
        def initialize(app = nil)
          links = Evidence::MiddlewareChain.of(app)
          # {path => {line on which a `call` begins => the middleware's name, "" or nil}}
          @calls = {}
          @procs = {}
          middleware = {}.compare_by_identity
          links.each { |link| middleware[link.object] = true }
          links.each { |link| add(link.object, link.name) }
          [app, *links.flat_map(&:inner)].compact.each { |behind| add(behind, "") unless middleware[behind] }
        end

        # A middleware's name; "": it is in the application behind all of them; nil: that is not known. `stack`: places of a backtrace, the innermost first.
        def of(stack)
          stack.each do |location|
            path = location.absolute_path || location.path
            next unless @calls.key?(path)

            line = begins(path, location)
            return @calls[path][line] if line
          end
          nil
        end

        private

        def add(app, name)
          path, line = Evidence::MiddlewareChain.location(app)
          return unless path

          calls = @calls[path] ||= {}
          # Two that inherit one `call` are not told apart.
          calls[line] = calls.key?(line) && calls[line] != name ? nil : name
          @procs[[path, line]] = true if app.is_a?(Proc)
        end

        # The line on which the `call` begins that this place is within; nil: it is within none.
        def begins(path, location)
          is_call, is_block = location.base_label == "call", location.label.start_with?("block")
          lines = @calls[path].keys.select { |line| line <= location.lineno && (@procs[[path, line]] ? is_block : is_call) }
          lines.max
        end
      end
    end
  end
end
