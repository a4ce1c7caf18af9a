get "/shelf", to: "shelf#index"
