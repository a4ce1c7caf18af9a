# frozen_string_literal: true

# Statements that reach a database: through Active Record's adapters, and those that the application (or Sequel) hands to
# SQLite3 and PG itself. Of the latter the bound values are not known. Changes no statement and no result.
module Paceline
  module AutoCache
    module Drivers
      # The variable of a fiber that is within Active Record's own execution: what the driver gets there is recorded already.
      INSIDE = :paceline_auto_cache_inside

      def self.install
        if defined?(ActiveSupport)
          ActiveSupport.on_load(:active_record) do
            require "active_record/connection_adapters/abstract_adapter"
            ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Adapter)
            # A process that only announces its writes reads no clock.
            Clock::Bound.install if defined?(Clock::Bound)
            ActiveRecord::FutureResult.prepend(Future) if defined?(ActiveRecord::FutureResult)
          end
          # From Rails 7.2 on an adapter, and its driver with it, is loaded by the first connection.
          %i[active_record_sqlite3adapter active_record_postgresqladapter].each { |adapter| ActiveSupport.on_load(adapter) { Drivers.follow } }
        end
        follow
      end

      # The drivers that are loaded by now.
      def self.follow
        SQLite3::Database.prepend(SQLite) if defined?(SQLite3::Database)
        SQLite3::Statement.prepend(SQLiteStatement) if defined?(SQLite3::Statement)
        PG::Connection.prepend(Postgres) if defined?(PG::Connection)
      end

      # Runs a statement that was handed to a driver. Only sent: the block returns before the database has answered.
      def self.direct(connection, sql, sent: false, &block)
        return yield if Statements.unremarkable?(sql) || inside?

        recording = AutoCache.recording
        recording&.statement(sql, [])
        recording&.lose_marks(sql)
        inside { Transactions.of(connection).run(sql, [], sent: sent, &block) }
      end

      def self.inside
        before = Thread.current[INSIDE]
        Thread.current[INSIDE] = true
        yield
      ensure
        Thread.current[INSIDE] = before
      end

      def self.inside? = Thread.current[INSIDE]

      # Every statement of an adapter is logged, transactions among them (Rails 6.1 to 8).
      module Adapter
        # The row was inserted by the statement before, and its key is known now.
        def insert(arel, name = nil, pk = nil, id_value = nil, *rest, **options)
          value = super
          key = pk || (arel.is_a?(Arel::InsertManager) && paceline_key(arel))
          paceline_transactions.generated(key, id_value || value) if key.is_a?(String) && (id_value || value)
          value
        end

        def reset!(...)
          paceline_transactions.reset
          super
        end

        def reconnect!(...)
          paceline_transactions.reset
          super
        end

        def disconnect!(...)
          paceline_transactions.reset
          super
        end

        def discard!(...)
          paceline_transactions.reset
          super
        end

        private

        # The rest is a name, the binds, and these as the database takes them; as it came, since nearly all statements need no more.
        ruby2_keywords def log(sql, *rest, &block)
          if Statements.unremarkable?(sql)
            # The driver may know the statement by a name alone, and take it for a write.
            thread = Thread.current
            before = thread[INSIDE]
            thread[INSIDE] = true
            begin
              return super
            ensure
              thread[INSIDE] = before
            end
          end

          if Drivers.inside?
            # From Rails 7.1 on a transaction begins, and is restored on a new connection, within the statement that needs it.
            return Statements.control?(sql) ? paceline_transactions.run(sql, []) { super } : super
          end

          name = rest.fetch(0, "SQL")
          casted = rest[2]
          # A write has to find its transaction open: otherwise it would be announced as one of its own, and not at the COMMIT.
          materialize_transactions if Statements.writes?(sql) && !%w[TRANSACTION SCHEMA].include?(name)
          values = casted.respond_to?(:call) ? casted.call : casted
          # What Active Record reads of the schema it keeps, and if that changes the front forgets all pages.
          paceline_recorded(sql, values || []) unless name == "SCHEMA"
          driver = @raw_connection || @connection
          transactions = paceline_transactions
          driver.instance_variable_set(:@paceline_transactions, transactions) if driver && !driver.frozen?
          # The adapter's own questions call functions of the catalogue.
          known = name == "SCHEMA" && Statements::READS.match?(sql)
          result = transactions.run(known ? "SELECT" : sql, values || []) do
            super(sql, *rest) do |*arguments|
              Drivers.inside { block.call(*arguments) }
            end
          end
          paceline_asked_next(sql, values || [])
          result
        end

        # A time of the clock may stand in it.
        def paceline_asked_next(sql, values)
          recording = AutoCache.recording
          bound = recording&.bound or return
          recording.quiet { Clock::Bound.ran(self, sql, values, bound) }
        end

        def paceline_recorded(sql, values)
          recording = AutoCache.recording or return
          recording.statement(sql, values)
          # A write is done when the primary says so.
          recording.untracked("reads a replica, which may be behind") if replica?
        end

        def paceline_transactions
          @paceline_transactions ||= Transactions.new
        end

        def paceline_key(arel)
          arel.ast.relation && schema_cache.primary_keys(arel.ast.relation.name)
        rescue NoMethodError
          nil
        end
      end

      # `load_async`: another thread runs the statement, and knows no request.
      module Future
        def schedule!(...)
          AutoCache.recording&.untracked("load_async")
          super
        end
      end

      # SQLite3::Database: what runs SQL at once, and `prepare`, whose statements are run later.
      module SQLite
        %i[execute execute2 execute_batch execute_batch2 query].each do |name|
          define_method(name) do |sql, *rest, **options, &block|
            Drivers.direct(self, sql.to_s) { super(sql, *rest, **options, &block) }
          end
        end

        def prepare(sql, &)
          # Active Record runs its own statements itself.
          return super if Drivers.inside?

          statement = super(sql, &nil)
          statement.instance_variable_set(:@paceline_sql, [self, sql.to_s])
          return statement unless block_given?

          begin
            yield statement
          ensure
            statement.close unless statement.closed?
          end
        end
      end

      module SQLiteStatement
        def execute(*) = paceline_run { super }
        def execute!(*) = paceline_run { super }
        def each = paceline_run { super }

        private

        def paceline_run(&)
          connection, sql = @paceline_sql
          sql ? Drivers.direct(connection, sql, &) : yield
        end
      end

      # PG::Connection, each way of running SQL.
      module Postgres
        names = %i[exec exec_params sync_exec sync_exec_params async_exec async_exec_params query async_query send_query send_query_params]
        names.each do |name|
          define_method(name) do |sql, *rest, &block|
            Drivers.direct(self, sql.to_s, sent: name.start_with?("send_")) { super(sql, *rest, &block) }
          end
        end

        %i[prepare sync_prepare async_prepare send_prepare].each do |name|
          define_method(name) do |statement, sql, *rest|
            (@paceline_prepared ||= {})[statement.to_s] = sql.to_s
            super(statement, sql, *rest)
          end
        end

        %i[exec_prepared sync_exec_prepared async_exec_prepared send_query_prepared].each do |name|
          define_method(name) do |statement, *rest, &block|
            sql = @paceline_prepared&.[](statement.to_s) || "EXECUTE unknown"
            Drivers.direct(self, sql, sent: name == :send_query_prepared) { super(statement, *rest, &block) }
          end
        end

        def copy_data(sql, *rest, &block)
          Drivers.direct(self, sql.to_s) { super(sql, *rest, &block) }
        end

        # The rows are there once the database has answered to the end.
        %i[put_copy_data put_copy_end].each do |name|
          define_method(name) do |*arguments, &block|
            Drivers.direct(self, "COPY unknown", sent: true) { super(*arguments, &block) }
          end
        end

        %i[reset reset_start].each do |name|
          define_method(name) do |*arguments|
            Transactions.of(self).reset unless Drivers.inside?
            super(*arguments)
          end
        end
      end
    end
  end
end
