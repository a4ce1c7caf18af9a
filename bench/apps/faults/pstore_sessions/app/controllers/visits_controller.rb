class VisitsController < ApplicationController
  def show
    session[:basket] ||= Array.new(20) { |i| { "book" => i, "count" => 1 } }
    render plain: "#{session[:basket].size} books in the basket"
  end
end
