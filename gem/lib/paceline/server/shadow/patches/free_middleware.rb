# frozen_string_literal: true

require_relative "../evidence/middleware_chain"

# What if this middleware were not there? Requests go past it.
module Paceline
  module Server
    module Shadow
      module Patches
        module FreeMiddleware
          # `middleware`: its class, as in the evidence.
          def self.apply(params, shadow)
            name = params["middleware"].to_s
            links = Evidence::MiddlewareChain.new(shadow.app).links.select { |link| link.name == name }
            raise Inapplicable, "the application has no middleware #{name}" if links.empty?

            links.each { |link| pass_over(link, name) }
          end

          def self.pass_over(link, name)
            raise Inapplicable, "#{name} has several applications behind it" unless link.inner.size == 1
            raise Inapplicable, "#{name} is frozen" if link.object.frozen?

            inner = link.inner.first
            link.object.define_singleton_method(:call) { |env| inner.call(env) }
          end
          private_class_method :pass_over
        end
      end
    end
  end
end
