get "/feed", to: "feed#show", defaults: { format: "xml" }
