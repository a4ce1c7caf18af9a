get "/stars", to: "stars#index"
