get "/search", to: "search#index"
