# Prices, and the table of who changed them: as `bin/rails generate paceline:audit` writes it.
class PutAPriceOnBeers < ActiveRecord::Migration[6.1]
  def change
    add_column :beers, :price, :decimal, precision: 6, scale: 2, null: false, default: 4.2

    create_table :paceline_audits do |t|
      t.string :record_type, null: false
      t.string :record_id, null: false
      t.string :action, null: false
      t.json :changed_values, null: false
      t.string :user_type
      t.string :user_id
      t.string :request_id
      t.datetime :created_at, null: false
      t.index [:record_type, :record_id]
      t.index [:user_id]
      t.index [:request_id]
    end
  end
end
