get "/wishes", to: "wishes#show"
