# An orders feed by Sinatra and Builder.
require "sinatra/base"
require "builder"
require_relative "xml"

class Orders < Sinatra::Base
  set :environment, :production
  ORDERS = Array.new(150) { |i| { number: 1000 + i, customer: "Customer & Co #{i}", cents: 995 + (i * 37), paid: i.odd? } }.freeze

  before { headers "Cache-Control" => "private, no-store" }
  get("/") { "orders" }

  get "/orders.xml" do
    content_type :xml
    xml = Builder::XmlMarkup.new
    xml.instruct!
    xml.orders do
      ORDERS.each do |order|
        xml.order(number: order[:number], paid: order[:paid]) do
          xml.customer order[:customer]
          xml.cents order[:cents]
          xml.link rel: "self", href: "/orders/#{order[:number]}"
        end
      end
    end
    xml.target!
  end
end

run Orders
