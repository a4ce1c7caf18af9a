# frozen_string_literal: true

module Paceline
  class Context
    # Paceline.current: the context of the running code. Outside a request, and in threads that were not given one, all of it is nil.
    module Current
      class << self
        # Whether there is a context.
        def active?
          !Slot.scope.nil?
        end

        # What Context.user_from finds; without it an Identity, of what the server has authenticated; nil: nobody.
        def user
          Slot.scope&.user
        end

        # For the rest of the request, as after a login; nil: nobody. Raises NoRequest outside.
        def user=(user)
          demanded("user=").user = user
        end

        # The user's `id`, or name, as logs, SQL comments and audits have it; nil: nobody. Raises nothing.
        def user_label
          Slot.scope&.user_label
        end

        # Whom the server has authenticated (env["paceline.user"], REMOTE_USER), as an Identity, whatever user_from says; or nil.
        def identity
          Slot.scope&.identity
        end

        # The request's X-Request-Id, which Rails and Paceline's log have, too. In a job: that of the request that it was enqueued in.
        def request_id
          Slot.scope&.request_id
        end

        # [traceparent, tracestate] of the request (W3C Trace Context), or nil.
        def trace
          Slot.scope&.trace
        end

        # A value that was set in this request; nil: none.
        def [](name)
          scope = Slot.scope and scope[name]
        end

        # Sets a value for the rest of the request. Raises NoRequest outside.
        def []=(name, value)
          demanded("[]=")[name] = value
        end

        # All values, as a Hash.
        def values
          Slot.scope&.values || {}
        end

        # Runs the block in a context of its own, as in a console, a script or a test; that of a request around it is out of reach meanwhile. Returns what the
        # block returns.
        #
        #   Paceline.current.run(user: admin, tenant: tenant) { account.update!(balance: 5) }
        def run(user: nil, request_id: nil, trace: nil, **values)
          scope = Scope.new(FixedSource.new(user, nil, request_id&.to_s, trace), values: values.empty? ? nil : values)
          scope.user = user
          Slot.with(scope) { yield }
        end

        # A Proc that runs the block with the context of here and now, in whatever thread it is called, and for as long as it takes. What is set in it stays
        # in it. Without a context the block has none.
        #
        #   Thread.new(&Paceline.current.wrap { Audit.write(Paceline.current.user) })
        def wrap(callable = nil, &block)
          callable ||= block or raise ArgumentError, "Paceline.current.wrap needs a block"
          snapshot = Slot.scope&.snapshot
          proc { |*arguments, **named, &given| Slot.with(snapshot&.copy) { callable.call(*arguments, **named, &given) } }
        end

        def inspect
          "#<Paceline.current#{" (none)" unless active?}>"
        end

        private

        def demanded(what)
          Slot.scope or raise NoRequest, "Paceline.current.#{what} outside a request: there is nothing that the value could belong to. " \
                                         "In a script use Paceline.current.run(user: ...) { }, for a thread Thread.new(&Paceline.current.wrap { })"
        end
      end
    end
  end
end
