get "/catalogue", to: "catalogue#index"
