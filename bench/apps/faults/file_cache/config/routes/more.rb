get "/best", to: "best#index"
get "/labels", to: "labels#index"
