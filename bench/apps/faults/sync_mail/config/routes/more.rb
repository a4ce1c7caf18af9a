get "/reminder", to: "reminders#show"
