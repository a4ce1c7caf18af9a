# frozen_string_literal: true

# Connections to PostgreSQL, those of ActiveRecord and others: each session reads only, and what would change that, or have an effect that a read-only
# transaction does not know of, is not sent (postgresql_statements.rb). Where something in the database has changed the session's mode, it is set again before the
# next transaction: within one that has begun to read, PostgreSQL itself lets nobody change it. A connection that leads to a pooler is no session of ours: what is
# set there would stay for others. There only ActiveRecord is let in, whose transactions read only (active_record_connections.rb).
require_relative "postgresql_statements"

module Paceline
  module Server
    module Shadow
      class Guards
        module PostgreSQL
          NAMES = %i[new open connect setdb setdblogin async_connect sync_connect].freeze
          # Of PG::Connection: the place of the statement among the arguments.
          STATEMENTS = { exec: 0, async_exec: 0, sync_exec: 0, query: 0, async_query: 0, exec_params: 0, async_exec_params: 0, sync_exec_params: 0, send_query: 0,
                         send_query_params: 0, prepare: 1, async_prepare: 1, sync_prepare: 1, send_prepare: 1 }.freeze
          # These have been prepared.
          PREPARED = %i[exec_prepared async_exec_prepared sync_exec_prepared send_query_prepared].freeze
          # Large objects, which PostgreSQL lets a read-only transaction write before its version 16, and what sends without waiting for the session's mode.
          REFUSED = /\A(?:lo_?(?:creat|create|import|export|write|unlink|truncate)|enter_pipeline_mode)\z/
          # What opens a connection in steps.
          STEPS = %i[connect_poll reset_start reset_poll].freeze
          MODE = "default_transaction_read_only"
          # In these a byte of another character may look like a backslash or a quote.
          AMBIGUOUS = %w[SJIS SHIFT_JIS_2004 BIG5 GBK GB18030 UHC JOHAB].freeze
          # Statements whose look is remembered.
          MAX_KNOWN = 1_000
          CONNECTING = :paceline_shadow_connecting
          private_constant :NAMES, :CONNECTING, :STATEMENTS, :PREPARED, :REFUSED, :STEPS, :MODE, :AMBIGUOUS, :MAX_KNOWN

          # Before PG::Connection's class methods.
          OfConnectionClass = Module.new do
            NAMES.each do |name|
              define_method(name) do |*arguments, **options, &block|
                connection = Confinement.outside { super(*arguments, **options) }
                PostgreSQL.restrict(connection)
                next connection unless block

                begin
                  block.call(connection)
                ensure
                  connection.finish unless connection.finished?
                end
              end
            end

            define_method(:connect_start) { |*arguments, **options, &block| Confinement.outside { super(*arguments, **options, &block) } }
          end

          # Before PG::Connection. `methods`: those that this version of it has.
          def self.guard_of(methods)
            Module.new do
              (STATEMENTS.keys & methods).each do |name|
                define_method(name) do |*arguments, **options, &block|
                  place = STATEMENTS[name]
                  arguments[place] = PostgreSQL.checked(self, arguments[place]) if arguments.size > place
                  super(*arguments, **options, &block)
                end
              end
              (PREPARED & methods).each do |name|
                define_method(name) do |*arguments, &block|
                  PostgreSQL.settle(self)
                  super(*arguments, &block)
                end
              end
              (STEPS & methods).each { |name| define_method(name) { |*arguments| Confinement.outside { super(*arguments) } } }
              methods.grep(REFUSED).each do |name|
                define_method(name) do |*arguments, &block|
                  PostgreSQL.refuse(name.to_s) unless Guards.off?
                  super(*arguments, &block)
                end
              end
            end
          end
          private_class_method :guard_of

          # Before PG::Connection.
          module OfConnection
            def reset
              Confinement.outside { super }.tap { PostgreSQL.restrict(self, again: true) }
            end
          end

          # Before PG::ReadOnlySqlTransaction.
          module Noting
            def initialize(*)
              super
              Guards.note("sql", message.to_s.lines.first)
            end
          end

          class << self
            def there?
              # What of it is in Ruby comes last.
              Guards.loaded?("PG::Connection") && Guards.loaded?("PG::ReadOnlySqlTransaction") && ::PG::Connection.method_defined?(:copy_data)
            end

            def install
              ::PG::Connection.singleton_class.prepend(OfConnectionClass)
              @known = { true => {}, false => {} }
              ::PG::Connection.prepend(OfConnection, guard_of(::PG::Connection.instance_methods))
              ::PG::ReadOnlySqlTransaction.prepend(Noting)
              ObjectSpace.each_object(::PG::Connection) { |connection| lead_nowhere(connection) }
            end

            # The statement as it was looked at. Raises PG::ReadOnlySqlTransaction for one that does not only read.
            def checked(connection, sql)
              return sql if Guards.off?

              # A class of the application's own might say something else when it is asked again.
              text = String.new(String.try_convert(sql) || sql.to_s)
              encoding = connection.parameter_status("client_encoding")
              refuse("a statement in #{encoding}", text) if AMBIGUOUS.include?(encoding) && !text.ascii_only?
              what = looked_at(text, connection.parameter_status("standard_conforming_strings") == "off")
              refuse(what, text) if what
              settle(connection)
              text
            end

            # What comes next may begin a transaction, which is to read only.
            def settle(connection)
              return if Guards.off? || connection.transaction_status != ::PG::PQTRANS_IDLE || connection.instance_variable_get(:@paceline_pooled)

              restrict(connection, again: true) unless session?(connection) && connection.parameter_status(MODE) == "on"
            end

            # Raises PG::ReadOnlySqlTransaction, which notes it.
            def refuse(what, sql = nil)
              Guards.note("sql", sql) if sql
              raise ::PG::ReadOnlySqlTransaction, "cannot execute #{what} in a read-only transaction of a shadow"
            end

            # While the block runs, this thread opens connections for ActiveRecord.
            def for_active_record
              before = Thread.current.thread_variable_get(CONNECTING)
              Thread.current.thread_variable_set(CONNECTING, true)
              yield
            ensure
              Thread.current.thread_variable_set(CONNECTING, before)
            end

            # `again`: what was set may be gone.
            def restrict(connection, again: false)
              return if Guards.off? || (session?(connection) && !again)

              if pooled?(connection)
                connection.instance_variable_set(:@paceline_pooled, true)
                return if Thread.current.thread_variable_get(CONNECTING)

                connection.finish
                raise ::PG::ConnectionBad, "a shadow can't keep a connection through a pooler from writing"
              end
              Guards.unguarded { connection.exec("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY") }
              connection.instance_variable_set(:@paceline_reads_only, true)
            end

            # The transaction that has just begun reads only.
            def restrict_transaction(connection)
              Guards.unguarded { connection.exec("SET TRANSACTION READ ONLY") } unless Guards.off? || session?(connection)
            end

            private

            # What of the statement is refused, or nil.
            def looked_at(sql, backslashes)
              known = @known[backslashes]
              return known[sql] if known.key?(sql)

              known.clear if known.size == MAX_KNOWN
              known[sql.dup.freeze] = PostgreSQLStatements.refused(sql, backslashes: backslashes)
            end

            # What was connected before the fork belongs to the process that forked this one: what is sent here would come between its words, and so would
            # the good-bye when the object is collected. The other end hears nothing; a request that uses it is told that it is broken.
            def lead_nowhere(connection)
              connection.socket_io.reopen(File::NULL)
            rescue ::PG::Error, SystemCallError, IOError
              nil # it is closed
            end

            # Whether its session reads only.
            def session?(connection)
              connection.instance_variable_get(:@paceline_reads_only)
            end

            # A pooler tells its client a number of its own.
            def pooled?(connection)
              Guards.unguarded { connection.exec("SELECT pg_backend_pid()") }.getvalue(0, 0).to_i != connection.backend_pid
            end
          end
        end
      end
    end
  end
end
