# Who changed the price of a beer, the latest first.
class AuditsController < ApplicationController
  LATEST = 100

  def index
    raise ActionController::RoutingError, "the gem paceline is not in the bundle" unless defined?(Paceline::Audit)

    @entries = Paceline::Audit::Entry.where(record_type: "Beer").order(id: :desc).limit(LATEST).select { |entry| entry.changed_values.key?("price") }
    @beers = Beer.where(id: @entries.map(&:record_id)).index_by { |beer| beer.id.to_s }
  end
end
