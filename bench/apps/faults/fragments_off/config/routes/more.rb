get "/shelves", to: "shelves#index"
