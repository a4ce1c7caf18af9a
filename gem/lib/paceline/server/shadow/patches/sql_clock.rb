# frozen_string_literal: true

# The clock of databases, for pages of another time. SQLite's functions of time are defined again, in terms of Ruby's clock, which is held. Other
# databases have a clock of their own that a connection can't set: a query that reads it is noted, and where it was made. It never changes a query.
module Paceline
  module Server
    module Shadow
      module Patches
        module SqlClock
          # Texts and quoted names: a clock's name in them is none.
          QUOTED = /'(?:[^']|'')*'|"[^"]*"|`[^`]*`|--[^\n]*|\/\*.*?\*\//m
          FUNCTIONS = "NOW|CLOCK_TIMESTAMP|STATEMENT_TIMESTAMP|TRANSACTION_TIMESTAMP|TIMEOFDAY|SYSDATE|GETDATE|GETUTCDATE|SYSDATETIME|UTC_TIMESTAMP|" \
                      "UTC_DATE|UTC_TIME|CURDATE|CURTIME"
          CLOCK = /\b(?<function>#{FUNCTIONS})\s*\(|\b(?<function>UNIX_TIMESTAMP)\s*\(\s*\)|
                   \b(?<word>CURRENT_TIMESTAMP|CURRENT_DATE|CURRENT_TIME|LOCALTIMESTAMP|LOCALTIME|SYSTIMESTAMP)\b/xi
          # PostgreSQL's texts that mean a time.
          SPECIAL = /'(?:now|today|tomorrow|yesterday)'\s*::|\b(?:date|timestamp|timestamptz|time)\s+'(?:now|today|tomorrow|yesterday)'/i
          # Methods that take a query, by the class of the connection.
          CONNECTIONS = {
            "PG::Connection" => %i[exec async_exec sync_exec query async_query exec_params async_exec_params sync_exec_params prepare async_prepare
                                   sync_prepare send_query send_query_params send_prepare],
            "Mysql2::Client" => %i[query prepare], "Trilogy" => %i[query]
          }.freeze
          PREPARING = %i[prepare async_prepare sync_prepare send_prepare].freeze
          private_constant :QUOTED, :FUNCTIONS, :CLOCK, :SPECIAL, :CONNECTIONS, :PREPARING

          class << self
            def apply(_params, shadow)
              @shadow = shadow
              CONNECTIONS.each { |name, methods| watch(name, methods) if Guards.loaded?(name) }
              SQLite.install if Guards.loaded?("SQLite3::Database")
              subscribe if defined?(::ActiveSupport::Notifications)
            end

            # Notes a clock that the query reads.
            def look(sql)
              name = clock_in(sql.to_s) or return
              @shadow.note_write(kind: "clock", what: name)
            end

            # As `NOW()`; nil: it reads none.
            def clock_in(sql)
              return sql[SPECIAL].delete_suffix("::").strip if sql.match?(SPECIAL)

              found = CLOCK.match(sql.gsub(QUOTED, " ")) or return
              found[:function] ? "#{found[:function].upcase}()" : found[:word].upcase
            end

            private

            def watch(name, methods)
              watching = Module.new do
                methods.each do |method|
                  define_method(method) do |*arguments, **options, &block|
                    # PostgreSQL's have the statement's name first.
                    SqlClock.look(PREPARING.include?(method) && arguments.size > 1 ? arguments[1] : arguments[0])
                    super(*arguments, **options, &block)
                  end
                end
              end
              Object.const_get(name).prepend(watching)
            end

            # An adapter that is loaded later.
            def subscribe
              ::ActiveSupport::Notifications.subscribe("sql.active_record") do |*, payload|
                adapter = payload[:connection].respond_to?(:adapter_name) ? payload[:connection].adapter_name : ""
                SqlClock.look(payload[:sql]) unless adapter.match?(/sqlite/i)
              end
            end
          end

          # SQLite3::Database.
          module SQLite
            WORDS = { "current_timestamp" => "%Y-%m-%d %H:%M:%S", "current_date" => "%Y-%m-%d", "current_time" => "%H:%M:%S" }.freeze
            # With how many arguments come before the time.
            NAMES = { "date" => 0, "time" => 0, "datetime" => 0, "julianday" => 0, "unixepoch" => 0, "strftime" => 1 }.freeze
            # SQLITE_UTF8 and SQLITE_DETERMINISTIC: an index may be of such a function.
            FLAGS = 1 | 0x800
            OWN = :paceline_shadow_sql_clock
            private_constant :WORDS, :NAMES, :FLAGS, :OWN

            # Before SQLite3::Database.
            module OfDatabase
              def initialize(*arguments, **options)
                if block_given?
                  super { |database| yield SQLite.define(database) }
                else
                  super
                  SQLite.define(self)
                end
              end
            end

            class << self
              def install
                ::SQLite3::Database.prepend(OfDatabase)
                ObjectSpace.each_object(::SQLite3::Database).reject(&:closed?).each { |database| define(database) }
              end

              # Returns the database.
              def define(database)
                return database if Thread.current.thread_variable_get(OWN) == true

                WORDS.each { |name, form| database.define_function_with_flags(name, FLAGS) { || ::Time.now.utc.strftime(form) } }
                own = known
                NAMES.slice(*own).each do |name, before|
                  database.define_function_with_flags(name, FLAGS) { |*arguments| SQLite.evaluate(name, held(arguments, before)) }
                end
                database
              end

              # By a database of our own, where the functions are SQLite's.
              def evaluate(name, arguments)
                aside { |database| database.get_first_value("SELECT #{name}(#{arguments.map { "?" }.join(",")})", arguments) }
              end

              private

              # The arguments with the held time in the place of `now`.
              def held(arguments, before)
                time = arguments[before]
                now = ::Time.now.utc.strftime("%Y-%m-%d %H:%M:%S.%L")
                return [*arguments.first(before), now] if arguments.size <= before
                return [*arguments.first(before), now, *arguments.drop(before)] if time.is_a?(String) && time.match?(/\Asubsec(?:ond)?\z/i)

                time.is_a?(String) && time.casecmp?("now") ? arguments.dup.tap { |all| all[before] = now } : arguments
              end

              # Older versions do not have all of them.
              def known
                @known ||= NAMES.keys.select do |name|
                  evaluate(name, name == "strftime" ? ["%Y", "2000-01-01"] : ["2000-01-01"])
                rescue ::SQLite3::Exception
                  false
                end
              end

              def aside
                database = Thread.current.thread_variable_get(OWN)
                unless database
                  Thread.current.thread_variable_set(OWN, true)
                  database = ::SQLite3::Database.new(":memory:")
                  Thread.current.thread_variable_set(OWN, database)
                end
                yield database
              end
            end
          end
        end
      end
    end
  end
end
