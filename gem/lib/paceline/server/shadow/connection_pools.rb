# frozen_string_literal: true

# The pools of ActiveRecord's connections, those of every role, in each version of Rails. It opens no connection.
module Paceline
  module Server
    module Shadow
      module ConnectionPools
        module_function

        # Empty without ActiveRecord, and before Rails 6.1.
        def all
          return [] unless defined?(::ActiveRecord::Base) && version?(6, 1)

          handler = ::ActiveRecord::Base.connection_handler
          return handler.connection_pool_list(:all) if version?(7, 1)

          # Each role had a handler of its own.
          handlers = ::ActiveRecord::Base.legacy_connection_handling ? ::ActiveRecord::Base.connection_handlers.values : []
          [handler, *handlers].uniq.flat_map(&:all_connection_pools).uniq
        end

        def version?(major, minor)
          ([::ActiveRecord::VERSION::MAJOR, ::ActiveRecord::VERSION::MINOR] <=> [major, minor]) >= 0
        end
        private_class_method :version?
      end
    end
  end
end
