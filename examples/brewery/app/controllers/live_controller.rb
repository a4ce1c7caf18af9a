class LiveController < ApplicationController
  def room
  end

  def ticker
  end
end
