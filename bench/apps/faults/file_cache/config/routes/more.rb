get "/labels", to: "labels#index"
