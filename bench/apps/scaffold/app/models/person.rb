# frozen_string_literal: true

class Person < ActiveRecord::Base
  PEOPLE = 24

  # Once for each version of Rails.
  def self.prepare
    return if table_exists?

    connection.create_table(:people) do |t|
      t.string :name
      t.string :town
      t.integer :age
      t.timestamps
    end
    reset_column_information
    Array.new(PEOPLE) { |i| create!(name: "Person #{i + 1}", town: %w[Bamberg Pilsen Gent Tynt][i % 4], age: 20 + i) }
  end
end
