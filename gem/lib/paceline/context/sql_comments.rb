# frozen_string_literal: true

require "erb"
require_relative "labels"

module Paceline
  class Context
    # Ends each statement of ActiveRecord with who asked, in sqlcommenter's form: /*request_id='ab12',user='42'*/. By Rails' own QueryLogs where it is
    # (Rails 7), else (6.1) before the methods of an adapter. A statement that differs with each request is never found prepared, so prepared statements
    # are off, as Rails has them off with QueryLogs.
    module SqlComments
      # What ends a statement, with anything that follows.
      SEMICOLON = /;\s*\z/
      private_constant :SEMICOLON

      class << self
        attr_writer :names

        # The statement with its comment; as it is if there is nothing to say, or it has it already.
        def annotate(sql)
          comment = comment()
          return sql if comment.nil? || sql.end_with?(comment)

          "#{sql.sub(SEMICOLON, "")} #{comment}"
        end

        # For here and now, or nil. No value can end the comment: all but letters, digits and -._~ is encoded.
        def comment
          told = @names.filter_map { |name| (label = Labels[name]) && "#{encode(name)}='#{encode(label)}'" }
          "/*#{told.sort.join(",")}*/" unless told.empty?
        end

        # Rails 7: adds the names to what QueryLogs says. Where the application had it off, it says only these. Before QueryLogs is configured.
        def add_to_query_logs(settings, names)
          tags = names.to_h { |name| [name, -> { Labels[name] }] }
          settings.query_log_tags = settings.query_log_tags_enabled ? [*settings.query_log_tags, tags] : [tags]
          settings.query_log_tags_format = :sqlcommenter if settings.respond_to?(:query_log_tags_format) && !settings.query_log_tags_enabled
          settings.query_log_tags_enabled = true
          ::ActiveRecord.disable_prepared_statements = true if ::ActiveRecord.respond_to?(:disable_prepared_statements=)
          # A comment that is kept could be another user's.
          settings.cache_query_log_tags = false
        end

        # Rails 6.1: before the adapters of all connections, those that are there and those that will be.
        def install
          ::ActiveRecord::ConnectionAdapters::ConnectionPool.prepend(PoolExtension)
          ::ActiveRecord::Base.connection_handler.all_connection_pools.each do |pool|
            pool.connections.each { |connection| connection.class.prepend(AdapterExtension) }
          end
        end

        private

        def encode(value)
          ERB::Util.url_encode(value)
        end
      end

      # Before a pool, which alone knows each adapter's class.
      module PoolExtension
        private

        def new_connection
          super.tap { |connection| connection.class.prepend(AdapterExtension) }
        end
      end

      # Before an adapter.
      module AdapterExtension
        %i[execute exec_query exec_delete exec_update].each do |name|
          define_method(name) { |sql, *arguments, **named| super(SqlComments.annotate(sql), *arguments, **named) }
        end

        def prepared_statements?
          false
        end

        def prepared_statements
          false
        end
      end
      private_constant :PoolExtension, :AdapterExtension
    end
    private_constant :SqlComments
  end
end
