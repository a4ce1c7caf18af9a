# The benchmark's page without a view, beside the brewery's own.
Rails.application.routes.append { get "plain", to: "plain#show" }
