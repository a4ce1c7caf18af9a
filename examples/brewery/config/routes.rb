Rails.application.routes.draw do
  root "pages#home"

  resources :breweries, only: [:index, :show]
  resources :beers, only: [:index, :show] do
    resources :notes, only: :create do
      get :listen, on: :collection
    end
    resource :price, only: :update
    resource :label, only: [:show, :create, :destroy]
  end

  # As HTML to everybody: then it does not vary by Accept, and one copy is for all.
  resource :release, only: :show, defaults: { format: "html" }

  resources :stories, only: :index do
    resource :run, only: :create, controller: "story_runs"
  end

  resources :factories, only: [:index, :create, :update, :destroy] do
    post :fill, on: :collection
    delete :clear, on: :collection
  end

  # The sections are declared in app/admin.
  get "admin", to: "admin/records#index"
  scope "admin/:section", as: :admin do
    resources :records, path: "", controller: "admin/records" do
      post "actions/:perform", action: :perform, as: :perform, on: :member
    end
  end

  get "search", to: "pages#search"
  get "feed", to: "feeds#show", defaults: { format: "xml" }
  get "audit", to: "audits#index"
  get "slow", to: "pages#slow"
  get "provision", to: "pages#provision"
  get "oops", to: "pages#oops"

  get "tasting-room", to: "live#room", as: :tasting_room
  get "ticker", to: "live#ticker"
  get "stream", to: "streams#show"

  get "up", to: "health#show"
end
