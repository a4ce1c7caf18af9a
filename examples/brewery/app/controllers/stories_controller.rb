# What Paceline's parts are about, each with a measurement that can be made here and now.
class StoriesController < ApplicationController
  def index
    @stories = Story.all
  end
end
