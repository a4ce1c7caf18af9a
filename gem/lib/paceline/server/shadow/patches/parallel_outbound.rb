# frozen_string_literal: true

# What if a request made its calls to other servers at once? The stand-in that answers them lets only the longest take its time.
module Paceline
  module Server
    module Shadow
      module Patches
        module ParallelOutbound
          def self.apply(_params, _shadow)
            raise Inapplicable, "nothing answers for other servers here" unless defined?(Outbound) && Outbound.respond_to?(:parallel=)

            Outbound.parallel = true
          end
        end
      end
    end
  end
end
