class CreateTheGuide < ActiveRecord::Migration[6.1]
  def change
    create_table :breweries do |t|
      t.string :name, null: false, index: { unique: true }
      t.string :town, null: false
      t.string :region, null: false, index: true
      t.string :country, null: false
      t.integer :founded, null: false
      t.text :about, null: false
      t.timestamps
    end

    create_table :beers do |t|
      t.references :brewery, null: false, foreign_key: true
      t.string :name, null: false
      t.string :style, null: false, index: true
      t.decimal :abv, precision: 4, scale: 1, null: false
      t.integer :ibu, null: false
      t.integer :ebc, null: false
      t.text :about, null: false
      t.timestamps
    end

    create_table :notes do |t|
      t.references :beer, null: false, foreign_key: true
      t.string :author, null: false
      t.integer :score, null: false
      t.text :body, null: false
      t.timestamps
    end
  end
end
