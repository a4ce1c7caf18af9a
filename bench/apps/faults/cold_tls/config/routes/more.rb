get "/offers", to: "offers#index"
