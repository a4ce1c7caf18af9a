# The database as it stands after the last migration in db/migrate.

ActiveRecord::Schema.define(version: 2026_02_01_090000) do
  create_table "breweries", force: :cascade do |t|
    t.string "name", null: false
    t.string "town", null: false
    t.string "region", null: false
    t.string "country", null: false
    t.integer "founded", null: false
    t.text "about", null: false
    t.datetime "created_at", precision: 6, null: false
    t.datetime "updated_at", precision: 6, null: false
    t.index ["name"], name: "index_breweries_on_name", unique: true
    t.index ["region"], name: "index_breweries_on_region"
  end

  create_table "beers", force: :cascade do |t|
    t.integer "brewery_id", null: false
    t.string "name", null: false
    t.string "style", null: false
    t.decimal "abv", precision: 4, scale: 1, null: false
    t.integer "ibu", null: false
    t.integer "ebc", null: false
    t.text "about", null: false
    t.decimal "price", precision: 6, scale: 2, default: "4.2", null: false
    t.datetime "created_at", precision: 6, null: false
    t.datetime "updated_at", precision: 6, null: false
    t.index ["brewery_id"], name: "index_beers_on_brewery_id"
    t.index ["style"], name: "index_beers_on_style"
  end

  create_table "notes", force: :cascade do |t|
    t.integer "beer_id", null: false
    t.string "author", null: false
    t.integer "score", null: false
    t.text "body", null: false
    t.datetime "created_at", precision: 6, null: false
    t.datetime "updated_at", precision: 6, null: false
    t.index ["beer_id"], name: "index_notes_on_beer_id"
  end

  create_table "paceline_audits", force: :cascade do |t|
    t.string "record_type", null: false
    t.string "record_id", null: false
    t.string "action", null: false
    t.json "changed_values", null: false
    t.string "user_type"
    t.string "user_id"
    t.string "request_id"
    t.datetime "created_at", precision: 6, null: false
    t.index ["record_type", "record_id"], name: "index_paceline_audits_on_record_type_and_record_id"
    t.index ["request_id"], name: "index_paceline_audits_on_request_id"
    t.index ["user_id"], name: "index_paceline_audits_on_user_id"
  end

  add_foreign_key "beers", "breweries"
  add_foreign_key "notes", "beers"
end
