# frozen_string_literal: true

require_relative "../evidence/middleware_chain"
require_relative "memory"

# What if this middleware were not there? Requests go past it. What it has put into the environment of a request in its first replay is there in the later
# ones, too, if that is plain data: the application may need it. What it does with the answer is left out.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeMiddleware
          class << self
            # `middleware`: its class, as in the evidence.
            def apply(params, shadow)
              name = params["middleware"].to_s
              links = Evidence::MiddlewareChain.new(shadow.app).links.select { |link| link.name == name }
              raise Inapplicable, "the application has no middleware #{name}" if links.empty?

              links.each { |link| new(link, name, shadow).pass_over }
            end
          end

          def initialize(link, name, shadow)
            raise Inapplicable, "#{name} has several applications behind it" unless link.inner.size == 1
            raise Inapplicable, "#{name} is frozen" if link.object.frozen?

            @object = link.object
            @inner = link.inner.first
            @memory = Memory.new(shadow)
          end

          def pass_over
            free = self
            @object.singleton_class.prepend(Module.new { define_method(:call) { |env| free.call(env) { super(env) } } })
            return if @inner.frozen?

            @inner.singleton_class.prepend(Module.new do
              define_method(:call) do |env|
                free.reached(env)
                super(env)
              end
            end)
          end

          # The answer of the application behind it, in the first replay of the middleware itself: the block's.
          def call(env)
            return passed_over(env) unless @memory.recording? && !@memory[:seen]

            @memory[:seen] = true
            @before = env.dup
            yield
          end

          # The application behind it is called.
          def reached(env)
            before, @before = @before, nil
            @memory[:set] = env.select { |name, value| plain?(value) && !(before.key?(name) && before[name].equal?(value)) } if before
          end

          private

          def passed_over(env)
            @memory[:set]&.each { |name, value| env[name] = copy(value) }
            @inner.call(env)
          end

          def plain?(value)
            case value
            when nil, true, false, Numeric, String, Symbol then true
            when Array then value.all? { |one| plain?(one) }
            when Hash then value.all? { |key, one| plain?(key) && plain?(one) }
            else false
            end
          end

          # The application may change it.
          def copy(value)
            value.is_a?(String) || value.is_a?(Array) || value.is_a?(Hash) ? value.dup : value
          end
        end
      end
    end
  end
end
