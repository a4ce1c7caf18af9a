# frozen_string_literal: true

require_relative "application"
ScaffoldApplication.initialize!
Person.prepare
# Each worker opens a connection of its own.
Rails.version < "7.2" ? ActiveRecord::Base.clear_all_connections! : ActiveRecord::Base.connection_handler.clear_all_connections!
run ScaffoldApplication
