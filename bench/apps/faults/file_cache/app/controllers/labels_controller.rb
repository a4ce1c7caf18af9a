class LabelsController < ApplicationController
  def index
    render plain: (1..Label::COUNT).map { |id| Label.of(id) }.join("\n")
  end
end
