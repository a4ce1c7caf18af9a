get "/seen", to: "seen#index"
