get "/books.json", to: "lists#index"
