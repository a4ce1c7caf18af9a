# frozen_string_literal: true

# Connections to PostgreSQL, those of ActiveRecord and others: each session reads only. A connection that leads to a pooler is no session of ours:
# what is set there would stay for others. There only ActiveRecord is let in, whose transactions read only (active_record_connections.rb).
module Paceline
  module Server
    module Shadow
      class Guards
        module PostgreSQL
          NAMES = %i[new open connect setdb setdblogin async_connect sync_connect].freeze
          CONNECTING = :paceline_shadow_connecting
          private_constant :NAMES, :CONNECTING

          # Before PG::Connection's class methods.
          OfConnectionClass = Module.new do
            NAMES.each do |name|
              define_method(name) do |*arguments, **options, &block|
                connection = super(*arguments, **options)
                PostgreSQL.restrict(connection)
                next connection unless block

                begin
                  block.call(connection)
                ensure
                  connection.finish unless connection.finished?
                end
              end
            end
          end

          # Before PG::Connection.
          module OfConnection
            def reset
              super.tap { PostgreSQL.restrict(self, again: true) }
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
              Guards.loaded?("PG::Connection") && Guards.loaded?("PG::ReadOnlySqlTransaction")
            end

            def install
              ::PG::Connection.singleton_class.prepend(OfConnectionClass)
              ::PG::Connection.prepend(OfConnection)
              ::PG::ReadOnlySqlTransaction.prepend(Noting)
              ObjectSpace.each_object(::PG::Connection) { |connection| lead_nowhere(connection) }
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
                return if Thread.current.thread_variable_get(CONNECTING)

                connection.finish
                raise ::PG::ConnectionBad, "a shadow can't keep a connection through a pooler from writing"
              end
              connection.exec("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
              connection.instance_variable_set(:@paceline_reads_only, true)
            end

            # The transaction that has just begun reads only.
            def restrict_transaction(connection)
              connection.exec("SET TRANSACTION READ ONLY") unless Guards.off? || session?(connection)
            end

            private

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
              connection.exec("SELECT pg_backend_pid()").getvalue(0, 0).to_i != connection.backend_pid
            end
          end
        end
      end
    end
  end
end
