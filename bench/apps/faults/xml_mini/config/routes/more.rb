get "/stock", to: "stock#index"
