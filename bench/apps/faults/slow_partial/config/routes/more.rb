get "/plan", to: "plan#index"
