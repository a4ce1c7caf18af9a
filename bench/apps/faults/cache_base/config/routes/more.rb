get "/best", to: "best#index"
