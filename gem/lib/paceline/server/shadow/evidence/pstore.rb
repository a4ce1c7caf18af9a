# frozen_string_literal: true

require_relative "observer"

# Transactions of Ruby's PStore. Subclasses with a format of their own (YAML::Store) and Paceline's store are not counted.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Pstore < Observer
          # Before PStore's own method.
          module Hooks
            def transaction(read_only = false)
              observer = Pstore.active
              return super unless observer && Pstore.plain?(self)

              observer.transaction(self, read_only) { |meter| super { |store| meter.pause { yield store } } }
            end
          end

          # Whether it is read and written as PStore does it.
          def self.plain?(store)
            %i[load dump].all? { |name| store.method(name).owner.equal?(::PStore) }
          end

          def initialize(places)
            super
            @transactions = @writes = @bytes = 0
            @meter = Meter.new
            @tally = Tally.new
          end

          # @api private
          def transaction(store, read_only)
            @transactions += 1
            @writes += 1 unless read_only
            @tally.add(@places.here)
            @meter.run { yield @meter }
          ensure
            Clock.aside { @bytes = [@bytes, File.size?(store.path).to_i].max }
          end

          # `us` is without the application's own code in the transactions; `bytes` is the size of the largest file.
          def to_h
            return if @transactions.zero?

            { transactions: @transactions, us: @meter.us.round, bytes: @bytes, at: @tally.top, writes: @writes }
          end

          private

          def install
            return unless defined?(::PStore) && !(defined?(::Paceline::PStore) && ::PStore.equal?(::Paceline::PStore))

            self.class.hook(::PStore, Hooks)
          end
        end
      end
    end
  end
end
