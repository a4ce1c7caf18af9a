# frozen_string_literal: true

# ActiveRecord: it refuses to write, in any thread and at any time, and on a server's database all of a request is one transaction that is rolled back.
# On SQLite there is none: it would keep others from writing, and the connections read only in any case (sqlite.rb).
module Paceline
  module Server
    module Shadow
      class Guards
        module ActiveRecordConnections
          # Before ActiveRecord::ReadOnlyError.
          module Noting
            PREFIX = /\A[^:]*readonly mode: /

            def initialize(message = nil, *)
              super
              Guards.note("sql", message.to_s.sub(PREFIX, ""))
            end
          end

          # Before AbstractAdapter. `while_preventing_writes` is of one thread: another that a request starts, and that may outlive it, knows nothing of it.
          module RefusingEverywhere
            def preventing_writes?
              !Guards.off? || super
            end
          end

          # Before PostgreSQLAdapter.
          module OfPostgreSQL
            def begin_db_transaction
              super.tap { PostgreSQL.restrict_transaction(paceline_connection) }
            end

            private

            # It may have begun with DISCARD ALL.
            def configure_connection(...)
              super.tap { PostgreSQL.for_active_record { PostgreSQL.restrict(paceline_connection, again: true) } }
            end

            def paceline_connection
              instance_variable_get(:@raw_connection) || instance_variable_get(:@connection)
            end
          end

          # Before PostgreSQLAdapter's class methods.
          module OfPostgreSQLClass
            def new_client(...)
              PostgreSQL.for_active_record { super }
            end
          end

          # The transaction of all that a request does on one connection. Threads give connections to each other: it belongs to the request that has used
          # the connection last, and ends with that.
          class Transaction
            # The connection's.
            def self.of(connection)
              connection.instance_variable_get(:@paceline_transaction) || connection.instance_variable_set(:@paceline_transaction, new(connection))
            end

            def initialize(connection)
              @connection = connection
              @mutex = Thread::Mutex.new
            end

            # It begins, unless it is open.
            def join(request)
              @mutex.synchronize do
                next if @request.equal?(request)

                @connection.begin_transaction(joinable: false) unless @request
                @request = request
                request.transactions << self
              end
            end

            # This request is over.
            def leave(request)
              @mutex.synchronize do
                next unless @request.equal?(request)

                @request = nil
                @connection.rollback_transaction while @connection.transaction_open?
              rescue StandardError
                @connection.disconnect!
              end
            end
          end

          # The adapter is loaded with the first connection to such a database.
          module Adapter
            class << self
              def there?
                Guards.loaded?("ActiveRecord::ConnectionAdapters::PostgreSQLAdapter")
              end

              def install
                adapter = ::ActiveRecord::ConnectionAdapters::PostgreSQLAdapter
                adapter.prepend(OfPostgreSQL)
                adapter.singleton_class.prepend(OfPostgreSQLClass)
              end
            end
          end

          class << self
            def there?
              Guards.loaded?("ActiveRecord::Base") && Guards.loaded?("ActiveRecord::ConnectionAdapters::AbstractAdapter") &&
                ::ActiveRecord::ConnectionAdapters::AbstractAdapter.respond_to?(:_checkout_callbacks)
            end

            def install
              @installed = true
              ::ActiveRecord::ReadOnlyError.prepend(Noting)
              adapter = ::ActiveRecord::ConnectionAdapters::AbstractAdapter
              adapter.prepend(RefusingEverywhere)
              adapter.set_callback(:checkout, :after) { |connection| ActiveRecordConnections.begin(connection) }
            end

            # Runs one request: the block.
            def around(&block)
              return yield unless @installed

              release
              request = CurrentRequest.get
              request.transactions = []
              begin
                ::ActiveRecord::Base.while_preventing_writes(&block)
              ensure
                roll_back(request)
                release
              end
            end

            # A connection is about to be used.
            def begin(connection)
              request = CurrentRequest.get
              Transaction.of(connection).join(request) unless request.transactions.nil? || sqlite?(connection)
            end

            private

            def sqlite?(connection)
              connection.adapter_name.match?(/sqlite/i)
            end

            def roll_back(request)
              open, request.transactions = request.transactions, nil
              open.each { |transaction| transaction.leave(request) }
            end

            # The next request gets its connections from the pool, as any request does.
            def release
              pools = ConnectionPools.all
              pools.empty? ? ::ActiveRecord::Base.connection_handler.clear_active_connections! : pools.each(&:release_connection)
            end
          end
        end
      end
    end
  end
end
