Rails.application.routes.draw { root "beers#index" }
