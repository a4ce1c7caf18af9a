# frozen_string_literal: true

require_relative "application"
SessionsApplication.initialize!
if STORE == "activerecord" && !ActiveRecord::Base.connection.table_exists?(:sessions)
  ActiveRecord::Base.connection.create_table(:sessions) do |t|
    t.string :session_id, null: false
    t.text :data
    t.timestamps
    t.index :session_id, unique: true
    t.index :updated_at
  end
  ActiveRecord::Base.connection_handler.clear_all_connections!
end
run SessionsApplication
