get "/terms", to: "terms#index"
