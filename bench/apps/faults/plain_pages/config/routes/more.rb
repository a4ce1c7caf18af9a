get "/all", to: "all#index"
