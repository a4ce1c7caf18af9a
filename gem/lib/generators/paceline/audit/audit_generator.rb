# frozen_string_literal: true

require "rails/generators/active_record"

# `bin/rails generate paceline:audit`: writes the migration of the table that Paceline::Audit writes to. Writes nothing else.
module Paceline
  module Generators
    class AuditGenerator < ::Rails::Generators::Base
      include ::ActiveRecord::Generators::Migration

      source_root File.expand_path("templates", __dir__)
      desc "Writes the migration for Paceline::Audit: the table paceline_audits."

      def write_migration
        migration_template "create_paceline_audits.rb", File.join(db_migrate_path, "create_paceline_audits.rb")
        say "      Next: bin/rails db:migrate, and `extend Paceline::Audit` with `audits only: [...]` in a model."
      end
    end
  end
end
