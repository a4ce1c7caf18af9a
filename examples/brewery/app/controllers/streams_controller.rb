# Server-sent events: what is poured where, one line at a time, until ?n= lines are out or the reader has gone.
class StreamsController < ApplicationController
  include ActionController::Live

  def show
    count = params.fetch(:n, 30).to_i.clamp(1, 10_000)
    pause = params.fetch(:ms, 1000).to_i.clamp(1, 60_000) / 1000.0
    names = Beer.includes(:brewery).order(:id).limit(200).map { |beer| "#{beer.name} at #{beer.brewery.name}" }

    # A stream needs no database: others do.
    ActiveRecord::Base.connection_handler.clear_active_connections!

    response.headers["Content-Type"] = "text/event-stream"
    response.headers["Cache-Control"] = "no-cache"
    # Without a validator Rack::ETag would collect the whole stream to digest it.
    response.headers["Last-Modified"] = Time.now.httpdate

    events = SSE.new(response.stream, event: "poured")
    count.times do |i|
      sleep pause if i > 0
      events.write({ beer: names.sample || "nothing yet", at: Time.now.strftime("%H:%M:%S") }, id: i + 1)
    end
    events.write({ poured: count }, event: "closed")
  rescue ActionController::Live::ClientDisconnected, IOError
    logger.info "The reader has gone"
  ensure
    response.stream.close
  end
end
