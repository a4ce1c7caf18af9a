# frozen_string_literal: true

# Statements that reach a database: through Active Record's adapters, and those that the application (or Sequel) hands to
# SQLite3 and PG itself. Of the latter the bound values are not known. Changes no statement and no result.
module Paceline
  module AutoCache
    module Drivers
      # A thread is within Active Record's own execution: what the driver gets there is recorded already.
      INSIDE = :paceline_auto_cache_inside

      def self.install
        if defined?(ActiveSupport)
          ActiveSupport.on_load(:active_record) do
            require "active_record/connection_adapters/abstract_adapter"
            ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Adapter)
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
        return yield if Statements.unremarkable?(sql) || Thread.current.thread_variable_get(INSIDE)

        AutoCache.recording&.statement(sql, [])
        inside { Transactions.of(connection).run(sql, [], sent: sent, &block) }
      end

      def self.inside
        before = Thread.current.thread_variable_get(INSIDE)
        Thread.current.thread_variable_set(INSIDE, true)
        yield
      ensure
        Thread.current.thread_variable_set(INSIDE, before)
      end

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

        def log(sql, name = "SQL", binds = [], casted = [], *rest, **options, &block)
          if Statements.unremarkable?(sql)
            # The driver may know the statement by a name alone, and take it for a write. Without a block: nearly all statements come here.
            thread = Thread.current
            before = thread.thread_variable_get(INSIDE)
            thread.thread_variable_set(INSIDE, true)
            begin
              return super
            ensure
              thread.thread_variable_set(INSIDE, before)
            end
          end

          if Thread.current.thread_variable_get(INSIDE)
            # From Rails 7.1 on a transaction begins, and is restored on a new connection, within the statement that needs it.
            return Statements.control?(sql) ? paceline_transactions.run(sql, []) { super } : super
          end

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
          transactions.run(known ? "SELECT" : sql, values || []) do
            super(sql, name, binds, casted, *rest, **options) do |*arguments|
              Drivers.inside { block.call(*arguments) }
            end
          end
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
        %i[execute execute! each].each do |name|
          # A method of a block would take twice as long.
          class_eval(<<~RUBY, __FILE__, __LINE__ + 1)
            def #{name}(*arguments, &block)                                             # def each(*arguments, &block)
              connection, sql = @paceline_sql                                           #   connection, sql = @paceline_sql
              return super if sql.nil? || Statements.unremarkable?(sql)                 #   return super if sql.nil? || Statements.unremarkable?(sql)

              Drivers.direct(connection, sql) { super(*arguments, &block) }             #   Drivers.direct(connection, sql) { super(*arguments, &block) }
            end                                                                         # end
          RUBY
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
            Transactions.of(self).reset unless Thread.current.thread_variable_get(INSIDE)
            super(*arguments)
          end
        end
      end
    end
  end
end
