get "/prices", to: "prices#index"
