get "/visit", to: "visits#show"
