get "/basket", to: "basket#show"
