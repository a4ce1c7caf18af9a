Rails.application.routes.draw do
  root "home#index"
  resources :books, only: :show
  draw :more if File.exist?(Rails.root.join("config/routes/more.rb"))
end
